//! Bash, whose readline takes words apart at colons and equals signs: events have colons (`sched:sched_switch`, `cycles:u`), options with values have the
//! other. The usual script asks about the last piece alone, and finds nothing.

use std::ffi::OsString;
use std::io::{Result, Write};
use std::path::Path;

use clap::Command;
use clap_complete::env::{Bash as Usual, EnvCompleter};

/// The usual answers, and a script of our own that asks.
#[derive(Clone, Copy, Debug)]
pub struct Bash;

/// Puts the pieces together that nothing stands between in the line, asks, and takes off the answers what readline will leave standing: what is before the
/// piece that it completes.
const SCRIPT: &str = r#"_NAME_completion() {
    local rest=${COMP_LINE:0:COMP_POINT} current=$2 words=() strip= i piece last
    # Behind `sudo` a separator comes as what is to be completed.
    [[ $current != [=:] ]] || current=
    for ((i = 0; i <= COMP_CWORD; i++)); do
        piece=${COMP_WORDS[i]}
        [[ $i -gt 0 && -n $rest && $rest != [[:blank:]]* ]] || words+=('')
        last=$((${#words[@]} - 1))
        if [[ $i -lt $COMP_CWORD ]]; then
            words[last]+=$piece
        elif [[ -z $rest || $rest == [[:blank:]\"\']* ]]; then
            # A quote is not in what is to be completed, and stays.
            strip=${words[last]}
            words[last]+=$current
        else
            words[last]+=$rest
            strip=${words[last]%"$current"}
        fi
        rest=${rest#*"$piece"}
    done
    local IFS=$'\013'
    COMPREPLY=($(_CLAP_IFS="$IFS" _CLAP_COMPLETE_INDEX=$last _CLAP_COMPLETE_COMP_TYPE=$COMP_TYPE VAR=bash "COMPLETER" -- "${words[@]}")) || {
        unset COMPREPLY
        return
    }
    COMPREPLY=("${COMPREPLY[@]#"$strip"}")
    if [[ ${COMPREPLY-} =~ [=/:]$ ]]; then compopt -o nospace 2>/dev/null; else compopt +o nospace 2>/dev/null; fi
}
if [[ ${BASH_VERSINFO[0]} -gt 4 || ${BASH_VERSINFO[0]} -eq 4 && ${BASH_VERSINFO[1]} -ge 4 ]]; then
    complete -o nospace -o bashdefault -o nosort -F _NAME_completion BIN
else
    complete -o nospace -o bashdefault -F _NAME_completion BIN
fi
"#;

impl EnvCompleter for Bash {
    fn name(&self) -> &'static str {
        Usual.name()
    }

    fn is(&self, name: &str) -> bool {
        Usual.is(name)
    }

    fn write_registration(&self, var: &str, name: &str, bin: &str, completer: &str, buf: &mut dyn Write) -> Result<()> {
        let script = SCRIPT.replace("COMPLETER", completer).replace("NAME", &name.replace('-', "_")).replace("BIN", bin);
        buf.write_all(script.replace("VAR", var).as_bytes())
    }

    fn write_complete(&self, cmd: &mut Command, args: Vec<OsString>, folder: Option<&Path>, buf: &mut dyn Write) -> Result<()> {
        Usual.write_complete(cmd, args, folder, buf)
    }
}
