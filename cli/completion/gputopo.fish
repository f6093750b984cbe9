# SPDX-License-Identifier: Apache-2.0
# fish completion for gputopo

# Names of the cluster, of what `gputopo $argv[1]` shows, with the options that were typed.
function __gputopo_names
    set -l asked gputopo $argv[1] -o name
    set -l option
    for word in (commandline -opc)
        if test -n "$option"
            set -a asked $option (string replace -r '^~/' "$HOME/" -- $word)
            set option
        else if string match -qr -- '^--(kubeconfig|context|service|companion|namespace)=' $word
            set -a asked $word
        else if string match -qr -- '^(--(kubeconfig|context|service|companion|namespace)|-n)$' $word
            set option $word
        end
    end
    timeout 3 $asked </dev/null 2>/dev/null
end

# The words that option $argv[1] of the verb takes.
function __gputopo_values
    set -l line (commandline -opc)
    timeout 3 gputopo $line[2] --complete $argv[1] (string replace -r '^-[^=]*=' '' -- (commandline -ct)) </dev/null 2>/dev/null
end

set -l verbs show record loss plan simulate try cluster supernodes explain isolate release isolated drain check-node bundle replay withdraw apply-crds
complete -c gputopo -f
complete -c gputopo -n "not __fish_seen_subcommand_from $verbs" -a show -d "Print how the GPUs of a node are wired"
complete -c gputopo -n "not __fish_seen_subcommand_from $verbs" -a record -d "Save a node in a file"
complete -c gputopo -n "not __fish_seen_subcommand_from $verbs" -a loss -d "Choose the best connected GPUs"
complete -c gputopo -n "not __fish_seen_subcommand_from $verbs" -a plan -d "Place a job on a cluster that a file describes"
complete -c gputopo -n "not __fish_seen_subcommand_from $verbs" -a simulate -d "Play jobs through a cluster"
complete -c gputopo -n "not __fish_seen_subcommand_from $verbs" -a try -d "Look at a cluster where gputopo is not installed"
complete -c gputopo -n "not __fish_seen_subcommand_from $verbs" -a cluster -d "Show the GPUs of a Kubernetes cluster"
complete -c gputopo -n "not __fish_seen_subcommand_from $verbs" -a supernodes -d "List the supernodes of a Kubernetes cluster"
complete -c gputopo -n "not __fish_seen_subcommand_from $verbs" -a explain -d "Explain why a pod or a job is where it is"
complete -c gputopo -n "not __fish_seen_subcommand_from $verbs" -a isolate -d "Take a GPU, a link or a node out of use"
complete -c gputopo -n "not __fish_seen_subcommand_from $verbs" -a release -d "Give back what isolate took"
complete -c gputopo -n "not __fish_seen_subcommand_from $verbs" -a isolated -d "List what is out of use by hand"
complete -c gputopo -n "not __fish_seen_subcommand_from $verbs" -a check-node -d "Check what is taken for granted"
complete -c gputopo -n "not __fish_seen_subcommand_from $verbs" -a drain -d "Empty a supernode for maintenance"
complete -c gputopo -n "not __fish_seen_subcommand_from $verbs" -a bundle -d "Save what is known of a cluster for a developer"
complete -c gputopo -n "not __fish_seen_subcommand_from $verbs" -a replay -d "Make the decisions of a bundle again"
complete -c gputopo -n "not __fish_seen_subcommand_from $verbs" -a withdraw -d "Take back what a removed gputopo has written"
complete -c gputopo -n "not __fish_seen_subcommand_from $verbs" -a apply-crds -d "Apply definitions of custom resources"
complete -c gputopo -n "not __fish_seen_subcommand_from $verbs" -s V -l version -d "Print the version"
complete -c gputopo -l help -d "Print the help"
complete -c gputopo -n "__fish_seen_subcommand_from show loss check-node" -l from -r -F -d "Read a recording"
complete -c gputopo -n "__fish_seen_subcommand_from show record loss check-node" -l root -r -F -d "Read below a directory"
complete -c gputopo -n "__fish_seen_subcommand_from show record loss check-node" -l vendor -x -d "PCI vendor id of the GPUs"
complete -c gputopo -n "__fish_seen_subcommand_from show record loss check-node" -l probe -r -F -a none -d "How the vendor library is asked"
complete -c gputopo -n "__fish_seen_subcommand_from show try cluster supernodes explain isolate release isolated drain check-node loss plan simulate replay withdraw" -s o -l output -x -a "(__gputopo_values -o)" -d "Format"
complete -c gputopo -n "__fish_seen_subcommand_from show" -l node -x -a "(__gputopo_names cluster)" -d "A node of the cluster"
complete -c gputopo -n "__fish_seen_subcommand_from show" -l agent -x -a none -d "Who knows what uses the GPUs"
complete -c gputopo -n "__fish_seen_subcommand_from show try cluster supernodes explain isolate release isolated drain bundle withdraw apply-crds" -l kubeconfig -r -F -d "How to reach the cluster"
complete -c gputopo -n "__fish_seen_subcommand_from show try cluster supernodes explain isolate release isolated drain bundle withdraw apply-crds" -l context -x -d "Which context of that file"
complete -c gputopo -n "__fish_seen_subcommand_from apply-crds" -F
complete -c gputopo -n "__fish_seen_subcommand_from isolate release isolated" -x -a "(__gputopo_names cluster)"
complete -c gputopo -n "__fish_seen_subcommand_from drain" -x -a "(__gputopo_names supernodes)"
complete -c gputopo -n "__fish_seen_subcommand_from isolate" -l reason -x -d "Why"
complete -c gputopo -n "__fish_seen_subcommand_from isolate" -l grade -x -a "(__gputopo_values --grade)" -d "How bad"
complete -c gputopo -n "__fish_seen_subcommand_from isolate" -l value -x -d "How slow"
complete -c gputopo -n "__fish_seen_subcommand_from isolate" -l for -x -d "How long: 90m, 12h, 3d"
complete -c gputopo -n "__fish_seen_subcommand_from isolate" -l evict -d "Running pods leave"
complete -c gputopo -n "__fish_seen_subcommand_from isolate release" -l link -d "The link between two GPUs"
complete -c gputopo -n "__fish_seen_subcommand_from drain" -l dry-run -d "Say what would be done"
complete -c gputopo -n "__fish_seen_subcommand_from drain" -l brake -x -d "Evict nobody while more nodes are not Ready"
complete -c gputopo -n "__fish_seen_subcommand_from withdraw" -l gates -d "Only the gates of pods that wait"
complete -c gputopo -n "__fish_seen_subcommand_from withdraw" -l dry-run -d "List what would be changed"
complete -c gputopo -n "__fish_seen_subcommand_from withdraw" -l yes -d "Do not ask"
complete -c gputopo -n "__fish_seen_subcommand_from cluster supernodes explain" -l watch -d "Print what changes"
complete -c gputopo -n "__fish_seen_subcommand_from cluster" -l nodes -x -a "(__gputopo_values --nodes)" -d "Which nodes"
complete -c gputopo -n "__fish_seen_subcommand_from cluster" -l supernode -x -a "(__gputopo_names supernodes)" -d "Only this supernode"
complete -c gputopo -n "__fish_seen_subcommand_from try" -l supernode-label -x -d "Labels that name a supernode"
complete -c gputopo -n "__fish_seen_subcommand_from try" -l resource-name -x -d "The resource of GPUs"
complete -c gputopo -n "__fish_seen_subcommand_from explain" -s n -l namespace -x -d "Where the pod or job is"
complete -c gputopo -n "__fish_seen_subcommand_from explain" -l service -x -d "The Service of gputopo-scheduler"
complete -c gputopo -n "__fish_seen_subcommand_from explain" -l companion -x -d "Ask gputopo-scheduler at this address"
complete -c gputopo -n "__fish_seen_subcommand_from explain" -x -a "(__gputopo_names explain)"
complete -c gputopo -n "__fish_seen_subcommand_from check-node" -l record -r -F -d "Write a recording with the checks"
complete -c gputopo -n "__fish_seen_subcommand_from bundle" -l anonymous -d "Numbers for names and addresses"
complete -c gputopo -n "__fish_seen_subcommand_from bundle" -s n -l namespace -x -d "Where gputopo is installed"
complete -c gputopo -n "__fish_seen_subcommand_from replay" -F
complete -c gputopo -n "__fish_seen_subcommand_from replay" -l page -r -F -d "Write the page"
complete -c gputopo -n "__fish_seen_subcommand_from record bundle" -s o -l output -r -F -d "Where to write"
complete -c gputopo -n "__fish_seen_subcommand_from loss" -s k -l gpus -x -d "How many GPUs"
complete -c gputopo -n "__fish_seen_subcommand_from loss" -l free -x -d "The GPUs to choose from"
complete -c gputopo -n "__fish_seen_subcommand_from plan" -l cluster -r -F -d "The cluster"
complete -c gputopo -n "__fish_seen_subcommand_from plan" -l from -r -F -d "One node"
complete -c gputopo -n "__fish_seen_subcommand_from plan" -l pods -x -d "How many pods"
complete -c gputopo -n "__fish_seen_subcommand_from plan" -s k -l gpus -x -d "GPUs of each pod"
complete -c gputopo -n "__fish_seen_subcommand_from plan" -l group-size -x -d "GPUs of a unit"
complete -c gputopo -n "__fish_seen_subcommand_from plan" -l atomic-group-size -x -d "GPUs of an atom"
complete -c gputopo -n "__fish_seen_subcommand_from plan" -l job-topology -x -a "(__gputopo_values --job-topology)" -d "Where the job lies"
complete -c gputopo -n "__fish_seen_subcommand_from plan" -l gpu-group-topology -x -a "(__gputopo_values --gpu-group-topology)" -d "Where a unit lies"
complete -c gputopo -n "__fish_seen_subcommand_from plan" -l slow-gpus -x -a "(__gputopo_values --slow-gpus)" -d "How it uses slow GPUs"
complete -c gputopo -n "__fish_seen_subcommand_from plan" -l close -x -a "(__gputopo_values --close)" -d "Closeness or room"
complete -c gputopo -n "__fish_seen_subcommand_from plan" -l chain -x -d "Unit sizes to leave room for"
complete -c gputopo -n "__fish_seen_subcommand_from plan" -l explain -d "Say why, and the bounds"
complete -c gputopo -n "__fish_seen_subcommand_from plan" -l exit-code -d "1 where the job is not placed"
complete -c gputopo -n "__fish_seen_subcommand_from plan" -l advise -d "Say which pods must leave"
complete -c gputopo -n "__fish_seen_subcommand_from plan" -l relocate -d "Say which pods must move"
complete -c gputopo -n "__fish_seen_subcommand_from simulate" -l cluster -r -F -d "File or shape"
complete -c gputopo -n "__fish_seen_subcommand_from simulate" -l trace -r -F -a "seren kalos philly helios" -d "File or name"
complete -c gputopo -n "__fish_seen_subcommand_from simulate" -l policy -x -a "(__gputopo_values --policy)" -d "What places the jobs"
complete -c gputopo -n "__fish_seen_subcommand_from simulate" -l seed -x -d "Of the random numbers"
complete -c gputopo -n "__fish_seen_subcommand_from simulate" -l seeds -x -d "How many runs"
complete -c gputopo -n "__fish_seen_subcommand_from simulate" -l load -x -d "GPU time asked for"
complete -c gputopo -n "__fish_seen_subcommand_from simulate" -l jobs -x -d "How many jobs"
complete -c gputopo -n "__fish_seen_subcommand_from simulate" -l no-departures -d "Jobs never leave"
complete -c gputopo -n "__fish_seen_subcommand_from simulate" -l queue -x -a "(__gputopo_values --queue)" -d "What does not fit"
complete -c gputopo -n "__fish_seen_subcommand_from simulate" -l group -x -d "GPUs of a group"
complete -c gputopo -n "__fish_seen_subcommand_from simulate" -l atomic -x -d "GPUs of an atom"
complete -c gputopo -n "__fish_seen_subcommand_from simulate" -l mtbf -x -d "Hours to a failure"
complete -c gputopo -n "__fish_seen_subcommand_from simulate" -l repair -x -d "Hours to the repair"
complete -c gputopo -n "__fish_seen_subcommand_from simulate" -l replay -d "The jobs of a file at their times"
complete -c gputopo -n "__fish_seen_subcommand_from simulate" -l patience -x -d "Until nodes are reserved"
complete -c gputopo -n "__fish_seen_subcommand_from simulate" -l reserve-waiting -x -d "For so long"
complete -c gputopo -n "__fish_seen_subcommand_from simulate" -l reserve-waiting-percent -x -d "Of all GPUs"
complete -c gputopo -n "__fish_seen_subcommand_from simulate" -l quota -x -d "GPUs of a namespace"
complete -c gputopo -n "__fish_seen_subcommand_from simulate" -l restart-cost -x -d "Without progress"
complete -c gputopo -n "__fish_seen_subcommand_from simulate" -l moves-a-day -x -d "Units that move"
complete -c gputopo -n "__fish_seen_subcommand_from simulate" -l pool -d "As without topology"
complete -c gputopo -n "__fish_seen_subcommand_from simulate" -l leaf -x -d "Supernodes in a leaf"
complete -c gputopo -n "__fish_seen_subcommand_from simulate" -l spine -x -d "Leaves in a spine"
complete -c gputopo -n "__fish_seen_subcommand_from simulate" -l loss-weight -x -d "Of gpu-aware"
complete -c gputopo -n "__fish_seen_subcommand_from simulate" -l close -x -a "(__gputopo_values --close)" -d "Closeness or room"
complete -c gputopo -n "__fish_seen_subcommand_from check-node" -l compute -x -d "Test each GPU"
complete -c gputopo -n "__fish_seen_subcommand_from check-node" -l bandwidth -d "Test each pair of GPUs"
complete -c gputopo -n "__fish_seen_subcommand_from check-node" -l fail -x -a "(__gputopo_values --fail)" -d "Exit with 1 if these do not hold"
complete -c gputopo -n "__fish_seen_subcommand_from check-node" -l compute-seconds -x -d "How long each"
complete -c gputopo -n "__fish_seen_subcommand_from check-node" -l fault-dir -r -F -d "Where the agent reads faults"
