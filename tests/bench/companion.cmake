# SPDX-License-Identifier: Apache-2.0
add_executable(bench_companion bench_companion.c wire_bodies.c)
target_link_libraries(bench_companion PRIVATE gt_base)
