if(TARGET gt_cache)
    add_executable(bench_cache bench_cache.c)
    target_link_libraries(bench_cache PRIVATE gt_cache gt_decide)
endif()
