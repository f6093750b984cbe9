# The decision core comes after the tests' folder in some set-ups; without it there is nothing to measure.
if(TARGET gt_core)
    add_executable(bench_core bench_core.c)
    target_link_libraries(bench_core PRIVATE core_checks)
endif()
