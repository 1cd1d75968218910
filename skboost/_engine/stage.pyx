"""What a stage of boosting asks of the back end that holds the rows or tables of a bag; the loop is in stage_loop."""

cdef class BackEnd:
    """State of one bag: the model on its rows and the sums over the cells of its terms."""
