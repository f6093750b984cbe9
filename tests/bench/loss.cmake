add_executable(bench_loss bench_loss.c ${CMAKE_SOURCE_DIR}/tests/unit/model/loss_wirings.c)
target_link_libraries(bench_loss PRIVATE gt_loss)
