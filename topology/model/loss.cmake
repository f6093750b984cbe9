gputopo_floor(gt_loss
    SOURCES loss_class.c loss_sums.c loss_cache.c loss_choose.c loss_search.c loss_parts.c loss_bound.c loss_hami.c
    USES gt_base
    PRIVATE Threads::Threads)
