gputopo_floor(gt_loss
    SOURCES loss_class.c loss_choose.c loss_search.c loss_parts.c numa.c
    USES gt_base
    PRIVATE Threads::Threads)
