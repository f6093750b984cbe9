# SPDX-License-Identifier: Apache-2.0
if(TARGET gt_kube)
    add_executable(bench_kube bench_kube.c bench_kube_json.c)
    target_link_libraries(bench_kube PRIVATE gt_kube)
endif()
