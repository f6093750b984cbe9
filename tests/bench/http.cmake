if(NOT TARGET PkgConfig::GNUTLS)
    pkg_check_modules(GNUTLS REQUIRED IMPORTED_TARGET GLOBAL gnutls)
endif()
# The load client, for the HTTP floor here and for the programs that stand on it.
add_executable(http_load ${CMAKE_CURRENT_LIST_DIR}/http_load.c ${CMAKE_CURRENT_LIST_DIR}/load_connection.c)
target_link_libraries(http_load PRIVATE gt_base PkgConfig::GNUTLS m)
add_executable(bench_http ${CMAKE_CURRENT_LIST_DIR}/bench_http.c)
target_link_libraries(bench_http PRIVATE gt_http)
