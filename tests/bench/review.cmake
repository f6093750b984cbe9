if(TARGET gt_webhook)
    add_executable(bench_review bench_review.c)
    target_link_libraries(bench_review PRIVATE gt_webhook gt_model)
endif()
