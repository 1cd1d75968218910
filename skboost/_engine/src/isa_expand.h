/* Includes the file named by SKB_IMPL once per instruction set; no include guard on purpose. */
#define SKB_SUFFIX _base
#define SKB_TARGET
#include SKB_IMPL
#undef SKB_SUFFIX
#undef SKB_TARGET

#ifdef SKB_X86_DISPATCH
#define SKB_SUFFIX _avx2
#define SKB_TARGET SKB_TARGET_AVX2
#include SKB_IMPL
#undef SKB_SUFFIX
#undef SKB_TARGET

#define SKB_SUFFIX _avx512
#define SKB_TARGET SKB_TARGET_AVX512
#define SKB_AVX512 1 /* for kernels that spell out these instructions */
#include SKB_IMPL
#undef SKB_SUFFIX
#undef SKB_TARGET
#undef SKB_AVX512
#endif

#undef SKB_IMPL
