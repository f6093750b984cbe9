if(TARGET gt_placement)
    add_executable(bench_placements bench_placements.c)
    target_link_libraries(bench_placements PRIVATE gt_placement)
endif()
