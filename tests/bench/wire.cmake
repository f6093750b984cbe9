if(TARGET gt_wire)
    add_executable(bench_wire bench_wire.c wire_bodies.c)
    target_link_libraries(bench_wire PRIVATE gt_wire)
endif()
