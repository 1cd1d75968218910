/* Barrier for the threads of one OpenMP region.
 *
 * The last thread to arrive gets 1 and may run a serial section before skb_barrier_release lets the others go on, so that
 * a shared decision costs no second barrier. Waiting threads spin for a short, adaptive time and then sleep: on a busy
 * machine endless spinning would slow a fit down many times over.
 */
#ifndef SKB_BARRIER_H
#define SKB_BARRIER_H

#include <stdatomic.h>
#include <stdint.h>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif !defined(_WIN32)
#include <sched.h>
#endif

#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#define SKB_PAUSE() _mm_pause()
#elif defined(__aarch64__) && !defined(_MSC_VER)
#define SKB_PAUSE() __asm__ __volatile__("yield")
#else
#define SKB_PAUSE() ((void)0)
#endif

enum { SKB_SPIN_MIN = 64, SKB_SPIN_MAX = 8192 };

typedef struct {
    int n_threads;
    atomic_int arrived;
    atomic_uint phase;
    atomic_int sleepers;
} skb_barrier_t;

static void skb_barrier_init(skb_barrier_t *b, int n_threads)
{
    b->n_threads = n_threads;
    atomic_init(&b->arrived, 0);
    atomic_init(&b->phase, 0u);
    atomic_init(&b->sleepers, 0);
}

static void skb_barrier_sleep(skb_barrier_t *b, unsigned phase)
{
#if defined(__linux__)
    atomic_fetch_add(&b->sleepers, 1);
    while (atomic_load_explicit(&b->phase, memory_order_acquire) == phase)
        syscall(SYS_futex, (uint32_t *)&b->phase, FUTEX_WAIT_PRIVATE, phase, NULL, NULL, 0);
    atomic_fetch_sub(&b->sleepers, 1);
#else
    while (atomic_load_explicit(&b->phase, memory_order_acquire) == phase) {
#if defined(_WIN32)
        SKB_PAUSE();
#else
        sched_yield();
#endif
    }
#endif
}

/* `spin` is the caller's private spin budget: it grows while spinning pays and shrinks when the machine is busy. */
static int skb_barrier_arrive(skb_barrier_t *b, int *spin)
{
    unsigned phase = atomic_load_explicit(&b->phase, memory_order_acquire);
    if (atomic_fetch_add_explicit(&b->arrived, 1, memory_order_acq_rel) == b->n_threads - 1)
        return 1;
    for (int i = 0; i < *spin; i++) {
        if (atomic_load_explicit(&b->phase, memory_order_acquire) != phase) {
            if (*spin < SKB_SPIN_MAX)
                *spin *= 2;
            return 0;
        }
        SKB_PAUSE();
    }
    if (*spin > SKB_SPIN_MIN)
        *spin /= 2;
    skb_barrier_sleep(b, phase);
    return 0;
}

static void skb_barrier_release(skb_barrier_t *b)
{
    atomic_store_explicit(&b->arrived, 0, memory_order_relaxed);
    atomic_fetch_add(&b->phase, 1u);
#if defined(__linux__)
    if (atomic_load(&b->sleepers) > 0)
        syscall(SYS_futex, (uint32_t *)&b->phase, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
#endif
}

#endif
