from libc.stdint cimport uint8_t, uint32_t

# Partition idx[0..m) by one test on the column; return the number of rows that go left. `before` and `after` are the
# readable bytes before and after the column. contiguous: the rows are idx[0], idx[0] + 1, ... left_codes[code] is 1
# where the code goes left.
cdef size_t partition_rows(const uint8_t *col, size_t before, size_t after, bint contiguous, uint32_t *idx, size_t m,
                           const uint8_t *left_codes, uint32_t *buffer) noexcept nogil
cdef void numeric_codes(int bin, bint missing_right, uint8_t *left_codes) noexcept nogil
cdef void set_codes(const uint8_t *left_set, uint8_t *left_codes) noexcept nogil
