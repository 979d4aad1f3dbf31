# Completion of bash: commands and flags that the help of the words so far names.
_kube_cert_recovery() {
  local word said=()
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [[ $word != [a-z]* ]] || said+=("$word")
  done
  mapfile -t COMPREPLY < <(compgen -W "$(
    kube-cert-recovery "${said[@]}" --help 2>/dev/null |
      sed -n -e 's/^  \(-., \)\{0,1\}\(--[a-z-]*\).*/\2/p' -e '/^Commands:/,$ s/^  \([a-z][a-z-]*\).*/\1/p'
  )" -- "${COMP_WORDS[COMP_CWORD]}")
}
complete -o default -F _kube_cert_recovery kube-cert-recovery
