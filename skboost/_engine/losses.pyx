"""Losses on raw scores: gradients, second derivatives, values and order-free means."""

cdef extern from *:
    """
    #include <stddef.h>
    #include "isa.h"
    typedef struct { int kind; int n_outputs; double param[4]; } skb_loss_t;
    #define SKB_IMPL "losses_impl.h"
    #include "isa_expand.h"

    static void skb_loss_gradients(const void *loss, ptrdiff_t n, const double *y, const double *score,
                                   ptrdiff_t score_stride, const double *base, int hessian, float *grad, float *hess,
                                   ptrdiff_t grad_stride)
    {
        SKB_DISPATCH(skb_loss_gradients)((const skb_loss_t *)loss, n, y, score, score_stride, base, hessian, grad, hess,
                                         grad_stride);
    }

    static void skb_loss_values(const void *loss, ptrdiff_t n, const double *y, const double *score,
                                ptrdiff_t score_stride, const double *base, double *out)
    {
        SKB_DISPATCH(skb_loss_values)((const skb_loss_t *)loss, n, y, score, score_stride, base, out);
    }
    """
    void skb_isa_init() noexcept nogil
    void skb_loss_gradients(const void *, Py_ssize_t, const double *, const double *, Py_ssize_t, const double *, int,
                            float *, float *, Py_ssize_t) noexcept nogil
    void skb_loss_values(const void *, Py_ssize_t, const double *, const double *, Py_ssize_t, const double *,
                         double *) noexcept nogil

skb_isa_init()


cdef int loss_from_object(object loss, loss_t *out) except -1:
    cdef int i
    out.kind = loss.kind
    out.n_outputs = loss.n_outputs
    for i in range(4):
        out.param[i] = loss.params[i] if i < len(loss.params) else 0.0
    return 0


cdef bint loss_needs_metric(const loss_t *loss) noexcept nogil:
    return loss.kind == LOSS_GAUSSIAN


cdef void loss_gradients(const loss_t *loss, Py_ssize_t n, const double *y, const double *score, Py_ssize_t score_stride,
                         const double *base, bint hessian, float *grad, float *hess,
                         Py_ssize_t grad_stride) noexcept nogil:
    skb_loss_gradients(loss, n, y, score, score_stride, base, hessian, grad, hess, grad_stride)


cdef void loss_values(const loss_t *loss, Py_ssize_t n, const double *y, const double *score, Py_ssize_t score_stride,
                      const double *base, double *out) noexcept nogil:
    skb_loss_values(loss, n, y, score, score_stride, base, out)
