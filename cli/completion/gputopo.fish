# SPDX-License-Identifier: Apache-2.0
# fish completion for gputopo

set -l verbs show record loss
complete -c gputopo -f
complete -c gputopo -n "not __fish_seen_subcommand_from $verbs" -a show -d "Print how the GPUs of a node are wired"
complete -c gputopo -n "not __fish_seen_subcommand_from $verbs" -a record -d "Save a node in a file"
complete -c gputopo -n "not __fish_seen_subcommand_from $verbs" -a loss -d "Choose the best connected GPUs"
complete -c gputopo -n "not __fish_seen_subcommand_from $verbs" -s V -l version -d "Print the version"
complete -c gputopo -l help -d "Print the help"
complete -c gputopo -n "__fish_seen_subcommand_from show loss" -l from -r -F -d "Read a recording"
complete -c gputopo -n "__fish_seen_subcommand_from $verbs" -l root -r -F -d "Read below a directory"
complete -c gputopo -n "__fish_seen_subcommand_from $verbs" -l vendor -x -d "PCI vendor id of the GPUs"
complete -c gputopo -n "__fish_seen_subcommand_from $verbs" -l probe -r -F -a none -d "How the vendor library is asked"
complete -c gputopo -n "__fish_seen_subcommand_from show" -s o -l output -x -a "matrix json yaml dot svg" -d "Format"
complete -c gputopo -n "__fish_seen_subcommand_from record" -s o -l output -r -F -d "Where to write"
complete -c gputopo -n "__fish_seen_subcommand_from loss" -s o -l output -x -a "text json" -d "Format"
complete -c gputopo -n "__fish_seen_subcommand_from loss" -s k -l gpus -x -d "How many GPUs"
complete -c gputopo -n "__fish_seen_subcommand_from loss" -l free -x -d "The GPUs to choose from"
