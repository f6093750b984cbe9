add_library(node_samples STATIC samples.c)
target_link_libraries(node_samples PUBLIC gt_model)
target_include_directories(node_samples PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})

gputopo_unit_test(node SOURCES test_node.c USES node_samples m)
gputopo_unit_test(node_json SOURCES test_node_json.c USES node_samples PkgConfig::CJSON)
gputopo_unit_test(composite SOURCES test_composite.c USES gt_model)
gputopo_unit_test(health SOURCES test_health.c USES gt_model)
gputopo_unit_test(render SOURCES test_render.c USES node_samples)

add_executable(node_tool node_tool.c)
target_link_libraries(node_tool PRIVATE node_samples PkgConfig::CJSON)
set_target_properties(node_tool PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
add_test(NAME unit/node_formats
         COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/check_formats.py $<TARGET_FILE:node_tool>
                 ${CMAKE_SOURCE_DIR}/docs/node.schema.json)
set_tests_properties(unit/node_formats PROPERTIES LABELS unit TIMEOUT 1500)
