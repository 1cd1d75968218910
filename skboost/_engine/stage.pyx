"""What a stage of boosting asks of the back end that holds the rows or tables of a bag; the loop is in stage_loop."""

from libc.string cimport memcpy

import numpy as np


cdef void copy_to(array, const double *values):
    cdef double[::1] out = array.reshape(-1)
    memcpy(&out[0], values, out.shape[0] * sizeof(double))


cdef class BackEnd:
    """State of one bag: the model on its rows and the sums over the cells of its terms.

    The methods are the functions of `c` with checked arguments.
    """

    def sums(self, int term):
        """Return (G, H, W) of a term under the current model: two arrays (n_outputs, n_cells) and one (n_cells,)."""
        cdef sums_t out
        cdef int n_cells = self.cells_of(term)
        self.c.sums(self.c.self, term, &out)
        G, H, W = np.empty((self.n_outputs, n_cells)), np.empty((self.n_outputs, n_cells)), np.empty(n_cells)
        copy_to(G, out.G)
        copy_to(H, out.H)
        copy_to(W, out.W)
        return G, H, W

    def part_sums(self, int term, cuts):
        """Return (G, H), of shape (n_outputs, n_cuts + 1), of the parts of a main effect's cells between cuts."""
        cdef int n_cells = self.cells_of(term)
        cdef int[::1] c_cuts = np.array(cuts, dtype=np.int32).reshape(-1)
        cdef int n_cuts = <int>c_cuts.shape[0]
        cdef double[:, ::1] G = np.empty((self.n_outputs, n_cuts + 1))
        cdef double[:, ::1] H = np.empty((self.n_outputs, n_cuts + 1))
        ends = np.asarray(c_cuts)
        if self.term_sizes[term, 1] != 1:
            raise ValueError(f"term {term} is a pair; only the cells of a main effect have parts")
        if n_cuts and (ends[0] < 0 or ends.max() > n_cells - 2 or (np.diff(ends) < 1).any()):
            raise ValueError(f"cuts must ascend within 0..{n_cells - 2}, got {ends.tolist()}")
        self.c.part_sums(self.c.self, term, n_cuts, &c_cuts[0] if n_cuts else NULL, &G[0, 0], &H[0, 0])
        return np.asarray(G), np.asarray(H)

    def apply(self, int term, u):
        """Add u, of shape (n_outputs, n_cells), to the model; return the validation metric, NaN where unknown."""
        cdef int n_cells = self.cells_of(term)
        cdef double[:, ::1] c_u = np.array(u, dtype=np.float64, order="C").reshape(self.n_outputs, n_cells)
        return self.c.apply(self.c.self, term, &c_u[0, 0])

    def refresh(self):
        """Bring everything up to date; return the validation metric, NaN without validation rows."""
        self.check_ready()
        return self.c.refresh(self.c.self)

    cdef int check_ready(self) except -1:
        if self.c.self == NULL:
            raise ValueError("this back end was not initialised")
        return 0

    cdef int cells_of(self, int term) except -1:
        self.check_ready()
        if not 0 <= term < len(self.term_sizes):
            raise IndexError(f"no term {term}: there are {len(self.term_sizes)}")
        return self.term_sizes[term, 0] * self.term_sizes[term, 1]
