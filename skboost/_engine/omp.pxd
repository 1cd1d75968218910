# OpenMP names that also compile without OpenMP.
cdef extern from *:
    """
    #ifdef _OPENMP
    #include <omp.h>
    static int skb_thread_num(void) { return omp_get_thread_num(); }
    static int skb_num_threads(void) { return omp_get_num_threads(); }
    static int skb_max_threads(void) { return omp_get_max_threads(); }
    #define SKB_HAS_OPENMP 1
    #else
    static int skb_thread_num(void) { return 0; }
    static int skb_num_threads(void) { return 1; }
    static int skb_max_threads(void) { return 1; }
    #define SKB_HAS_OPENMP 0
    #endif
    """
    int skb_thread_num() noexcept nogil
    int skb_num_threads() noexcept nogil
    int skb_max_threads() noexcept nogil
    const int SKB_HAS_OPENMP
