if(TARGET gt_feed)
    add_executable(bench_feed bench_feed.c)
    target_link_libraries(bench_feed PRIVATE gt_feed)
endif()
