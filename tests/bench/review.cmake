if(TARGET gt_placement)
    add_executable(bench_review bench_review.c)
    target_link_libraries(bench_review PRIVATE gt_placement gt_model)
endif()
