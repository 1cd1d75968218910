/* Ends the section that rows8.h opens, so that the next instruction set defines its own. */
#undef SKB_X8
#undef SKB_M8
#undef SKB_CUT8
#undef SKB_LOAD8
#undef SKB_STORE8
#undef SKB_SET8
#undef SKB_ADD8
#undef SKB_MUL8
#undef SKB_SET_CUT8
#undef SKB_UPTO8
#undef SKB_ADD_IF8
#undef SKB_CHOOSE8
#undef SKB_TABLE8
#undef SKB_AND2
#undef SKB_OR2
