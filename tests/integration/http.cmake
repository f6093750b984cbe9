# The HTTP server from outside: real sockets, OpenSSL's TLS, curl.
if(TARGET gt_http)
    add_executable(http-host ${CMAKE_CURRENT_LIST_DIR}/http_host.c)
    target_link_libraries(http-host PRIVATE gt_http)
    set_target_properties(http-host PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME integration/http
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_http.py $<TARGET_FILE:http-host>)
    add_test(NAME integration/http-tls
             COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_http_tls.py $<TARGET_FILE:http-host>)
    set_tests_properties(integration/http integration/http-tls PROPERTIES LABELS integration TIMEOUT 1500)
endif()
