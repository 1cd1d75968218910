/* One source, several instruction sets: the template mechanism of the vector kernels.
 *
 * A kernel file is written once with SKB_FN(name) for its functions and SKB_TARGET on each of them, and is
 * expanded by isa_expand.h for every instruction set. SKB_DISPATCH(name) chooses at run time. All variants return
 * the same bits: float contraction is off, sums are never reassociated, transcendental functions are our own.
 */
#ifndef SKB_ISA_H
#define SKB_ISA_H

#include <stdint.h>
#include <stdlib.h>

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__)) && !defined(SKB_NO_DISPATCH)
#define SKB_X86_DISPATCH 1
#define SKB_TARGET_AVX2 __attribute__((target("avx2,bmi,bmi2,popcnt,lzcnt")))
#define SKB_TARGET_AVX512 \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,bmi,bmi2,popcnt,lzcnt")))
#endif

#define SKB_CAT_(a, b) a##b
#define SKB_CAT(a, b) SKB_CAT_(a, b)
#define SKB_FN(name) SKB_CAT(name, SKB_SUFFIX)

static int skb_isa_detect(void)
{
    int level = 0;
#ifdef SKB_X86_DISPATCH
    const char *cap = getenv("SKBOOST_ISA");
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2")) {
        level = 1;
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
            level = 2;
    }
    if (cap && cap[0] >= '0' && cap[0] <= '2' && cap[0] - '0' < level)
        level = cap[0] - '0';
#endif
    return level;
}

/* Set once when the extension module is imported (each module calls skb_isa_init), read-only afterwards. */
static int skb_isa_level = 0;

static void skb_isa_init(void) { skb_isa_level = skb_isa_detect(); }
static int skb_isa(void) { return skb_isa_level; }

#ifdef SKB_X86_DISPATCH
#define SKB_DISPATCH(name) \
    (skb_isa() == 2 ? SKB_CAT(name, _avx512) : skb_isa() == 1 ? SKB_CAT(name, _avx2) : SKB_CAT(name, _base))
#else
#define SKB_DISPATCH(name) SKB_CAT(name, _base)
#endif

#endif
