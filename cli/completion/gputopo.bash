# SPDX-License-Identifier: Apache-2.0
# bash completion for gputopo; load it with: source gputopo.bash

# Proposes the given words that begin with what was typed.
_gputopo_words()
{
    mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2")
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
        show | record | loss)
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
        _gputopo_words "show record loss --help --version" "$current"
        return
    fi
    case $verb$previous in
    show-o | show--output)
        _gputopo_words "matrix json yaml dot svg" "$current"
        return
        ;;
    loss-o | loss--output)
        _gputopo_words "text json" "$current"
        return
        ;;
    *--probe)
        _gputopo_files "$current"
        [[ none == "$current"* ]] && COMPREPLY+=(none)
        return
        ;;
    *--from | *--root | record-o | record--output)
        _gputopo_files "$current"
        return
        ;;
    loss-k | loss--gpus)
        _gputopo_words "1 2 4 8" "$current"
        return
        ;;
    *--vendor | *--free)
        return
        ;;
    esac
    case $verb in
    show) _gputopo_words "--from --root --vendor --probe -o --output --help" "$current" ;;
    record) _gputopo_words "-o --output --root --vendor --probe --help" "$current" ;;
    loss) _gputopo_words "-k --gpus --free --from --root --vendor --probe -o --output --help" "$current" ;;
    esac
}

complete -F _gputopo gputopo kubectl-gputopo
