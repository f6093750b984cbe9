# Third-party: libyaml, in render_yaml.c alone.
if(NOT TARGET PkgConfig::YAML)
    pkg_check_modules(YAML REQUIRED IMPORTED_TARGET GLOBAL yaml-0.1)
endif()
gputopo_floor(gt_model
    SOURCES node.c node_text.c composite.c node_finish.c evidence.c health.c isolation.c pcie_kind.c
            node_json_write.c node_json_read.c
            render_facts.c render_matrix.c render_yaml.c pcie_tree.c render_dot.c
            svg_draw.c svg_layout.c svg_tree.c svg_below.c
    USES gt_base
    PRIVATE PkgConfig::YAML m)
if(TARGET gt_loss)
    target_link_libraries(gt_model PUBLIC gt_loss)
endif()
