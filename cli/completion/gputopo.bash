# SPDX-License-Identifier: Apache-2.0
# bash completion for gputopo; load it with: source gputopo.bash

# Proposes the given words that begin with what was typed.
_gputopo_words()
{
    mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2")
}

# The same for words that may hold anything: compgen -W runs what is written in them.
_gputopo_those()
{
    local word
    for word in "${@:2}"; do
        [[ -z $word || $word != "$1"* ]] || COMPREPLY+=("$word")
    done
}

# Proposes names of the cluster, of what `gputopo $1` shows, with the options that were typed. One that does not answer soon has
# none.
_gputopo_names()
{
    local i value names asked=("${COMP_WORDS[0]}" "$1" -o name)
    for ((i = 1; i < COMP_CWORD - 1; i++)); do
        value=${COMP_WORDS[i + 1]}
        [[ $value != = ]] || value=${COMP_WORDS[i + 2]}
        case ${COMP_WORDS[i]} in
        --kubeconfig | --context | --service | --companion | -n | --namespace) asked+=("${COMP_WORDS[i]}" "${value/#\~\//$HOME/}") ;;
        --kubeconfig=* | --context=* | --service=* | --companion=* | --namespace=*) asked+=("${COMP_WORDS[i]}") ;;
        esac
    done
    mapfile -t names < <(timeout 3 "${asked[@]}" </dev/null 2>/dev/null)
    _gputopo_those "$2" "${names[@]}"
}

# Proposes the words that option $2 of verb $1 takes; fails where it takes no value.
_gputopo_values()
{
    local values
    values=$(timeout 3 "${COMP_WORDS[0]}" "$1" --complete "$2" "$3" </dev/null 2>/dev/null) || return 1
    mapfile -t values <<<"$values"
    _gputopo_those "$3" "${values[@]}"
}

_gputopo_files()
{
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$1")
}

_gputopo()
{
    local current=${COMP_WORDS[COMP_CWORD]} previous='' verb='' i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        show | record | loss | plan | simulate | try | cluster | supernodes | explain | isolate | release | isolated | drain | check-node | bundle | replay | withdraw | apply-crds)
            verb=${COMP_WORDS[i]}
            break
            ;;
        esac
    done
    ((COMP_CWORD > 0)) && previous=${COMP_WORDS[COMP_CWORD - 1]}
    # "--from=x" comes as three words: --from, =, x
    if [[ $current == = ]]; then
        current=
    elif [[ $previous == = ]] && ((COMP_CWORD > 1)); then
        previous=${COMP_WORDS[COMP_CWORD - 2]}
    fi

    if [[ -z $verb ]]; then
        _gputopo_words "show record loss plan simulate try cluster supernodes explain isolate release isolated drain check-node bundle replay withdraw apply-crds --help --version" "$current"
        return
    fi
    case $verb$previous in
    simulate--trace)
        _gputopo_files "$current"
        mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -W "seren kalos philly helios" -- "$current")
        return
        ;;
    *--probe)
        _gputopo_files "$current"
        [[ none == "$current"* ]] && COMPREPLY+=(none)
        return
        ;;
    show--agent)
        _gputopo_words "none 127.0.0.1:9400" "$current"
        return
        ;;
    *--from | *--root | *--kubeconfig | *--cluster | record-o | record--output | bundle-o | bundle--output | replay--page | check-node--record | check-node--fault-dir)
        _gputopo_files "$current"
        return
        ;;
    loss-k | loss--gpus | plan-k | plan--gpus)
        _gputopo_words "1 2 4 8" "$current"
        return
        ;;
    plan--group-size | plan--atomic-group-size)
        _gputopo_words "8 16 32 64 128" "$current"
        return
        ;;
    show--node)
        _gputopo_names cluster "$current"
        return
        ;;
    cluster--supernode)
        _gputopo_names supernodes "$current"
        return
        ;;
    esac
    if [[ $previous == -* ]] && _gputopo_values "$verb" "$previous" "$current"; then
        return
    fi
    if [[ $current != -* ]]; then
        case $verb in
        isolate | release | isolated)
            _gputopo_names cluster "$current"
            return
            ;;
        drain)
            _gputopo_names supernodes "$current"
            return
            ;;
        explain)
            _gputopo_names explain "$current"
            return
            ;;
        esac
    fi
    case $verb in
    show)
        _gputopo_words "--from --root --vendor --probe --agent --node --kubeconfig --context -o --output --help" "$current"
        ;;
    cluster) _gputopo_words "--watch --nodes --supernode --kubeconfig --context -o --output --help" "$current" ;;
    try) _gputopo_words "--supernode-label --resource-name --kubeconfig --context -o --output --help" "$current" ;;
    supernodes) _gputopo_words "--watch --kubeconfig --context -o --output --help" "$current" ;;
    drain) _gputopo_words "--dry-run --brake -o --output --kubeconfig --context --help" "$current" ;;
    withdraw) _gputopo_words "--kubeconfig --context --gates --dry-run --yes -o --output --help" "$current" ;;
    isolate) _gputopo_words "--reason --grade --value --for --evict --link -o --output --kubeconfig --context --help" "$current" ;;
    release) _gputopo_words "--link -o --output --kubeconfig --context --help" "$current" ;;
    isolated) _gputopo_words "-o --output --kubeconfig --context --help" "$current" ;;
    apply-crds) _gputopo_words "--kubeconfig --context --help" "$current" ;;
    explain) _gputopo_words "--watch -n --namespace --kubeconfig --context --service --companion -o --output --help" "$current" ;;
    bundle) _gputopo_words "-o --output --anonymous -n --namespace --kubeconfig --context --help" "$current" ;;
    replay)
        _gputopo_words "--page -o --output --help" "$current"
        [[ $current == -* ]] || _gputopo_files "$current"
        ;;
    record) _gputopo_words "-o --output --root --vendor --probe --help" "$current" ;;
    check-node) _gputopo_words "--from --record --compute --bandwidth --compute-seconds --fail --fault-dir --root --vendor --probe -o --output --help" "$current" ;;
    loss) _gputopo_words "-k --gpus --free --from --root --vendor --probe -o --output --help" "$current" ;;
    plan)
        _gputopo_words "--cluster --from --pods -k --gpus --group-size --atomic-group-size --job-topology --gpu-group-topology
            --slow-gpus --close --chain --explain --advise --relocate --exit-code -o --output --help" "$current"
        ;;
    simulate)
        _gputopo_words "--cluster --trace --policy --seed --seeds --load --jobs --no-departures --replay --queue --patience
            --reserve-waiting --reserve-waiting-percent --quota --group --atomic --mtbf --repair
            --restart-cost --moves-a-day --pool --leaf --spine --loss-weight --close
            -o --output --help" "$current"
        ;;
    esac
}

complete -F _gputopo gputopo kubectl-gputopo
