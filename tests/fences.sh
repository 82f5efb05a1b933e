#!/usr/bin/env bash
# Checks the module boundaries of ARCHITECTURE.md that the compiler does not enforce. Reads manifests and source text only, builds nothing, and
# takes a second. Exits 1 and names each violation.
#
#   tests/fences.sh
#
# Comments and test modules are ignored, and so are files that do not exist.
set -uo pipefail
cd "$(dirname "$0")/.."
broken=0 checked=0

breach() { # <the rule> <lines>
  echo "module boundary violated: $1" >&2
  sed 's/^/  /' <<<"$2" >&2
  broken=$((broken + 1))
}

# Prints the code of the given files and directories as file:line:text, without comments, test modules and test files.
code() {
  find "$@" -name '*.rs' -not -name tests.rs -not -path '*/tests/*' 2>/dev/null | sort | while read -r file; do
    awk -v file="$file" '
      pending && /^[[:space:]]*(pub )?mod [a-z_0-9]+ *\{/ { exit }
      { pending = /^[[:space:]]*#\[cfg\(test\)\]/ }
      { sub(/(^|[^:"])\/\/.*$/, ""); if ($0 !~ /^[[:space:]]*$/) print file ":" FNR ":" $0 }' "$file"
  done
}

# never <the rule> <extended regular expression> <files or directories...>
never() {
  local what=$1 pattern=$2 found
  shift 2
  checked=$((checked + 1))
  found=$(code "$@" | grep -E -- "^[^:]+:[0-9]+:.*($pattern)")
  [ -z "$found" ] || breach "$what" "$found"
}

# The crates a package is built from, without dev-dependencies. A tree that cannot be read is a violation.
tree() { cargo tree --locked --quiet --package "$1" --edges normal,build --target all --prefix none --format '{p}'; }

only() { # <package> <its permitted dependencies, as an extended regular expression>
  local found
  checked=$((checked + 1))
  if ! found=$(tree "$1" 2>&1); then
    breach "cannot read the dependency tree of $1" "$found"
    return
  fi
  found=$(grep -vE "^($2) v" <<<"$found")
  [ -z "$found" ] || breach "$1 has a forbidden dependency" "$found"
}

# --- packages -------------------------------------------------------------------------------------------------------------------------
only supercargo-core 'supercargo-core|fearless_simd'
only supercargo-sim 'supercargo-sim|supercargo-core|fearless_simd|proptest.*'

# The packages below the client: nothing brings a client, a runtime or a socket into them.
without() { # <package> <crates>
  local package=$1 crate tree
  shift
  tree=$(tree "$package" 2>&1)
  for crate in "$@"; do
    checked=$((checked + 1))
    if grep -qE "^$crate v" <<<"$tree"; then breach "$package is built with $crate" "$(grep -E "^$crate v" <<<"$tree")"; fi
  done
}
without supercargo-core kube-core k8s-openapi prometheus serde tracing
for package in core objects config whatif web sim; do
  without supercargo-$package kube-client tokio hyper rustls prometheus
done
# The direction of the arrows: a package is built from the ones below it only.
for package in core objects config whatif apiserver web cli; do
  case $package in
    core) above='objects|config|whatif|apiserver|web|cli|sim' ;;
    objects) above='config|whatif|apiserver|web|cli|sim' ;;
    config) above='whatif|apiserver|web|cli|sim' ;;
    whatif) above='apiserver|web|cli|sim' ;;
    apiserver) above='whatif|web|cli|sim' ;;
    web) above='apiserver|cli|sim' ;;
    cli) above='sim' ;;
  esac
  checked=$((checked + 1))
  found=$(tree supercargo-$package 2>&1 | grep -E "^supercargo(-($above))? v")
  [ -z "$found" ] || breach "supercargo-$package is built with a package above it" "$found"
done

# --- the engine -----------------------------------------------------------------------------------------------------------------------
core=crates/core/src
never "the engine does no I/O, reads no clock, starts no thread" \
  'std::(fs|net|env|process|thread|io)\b|\b(Instant|SystemTime)\b|\b(e?print(ln)?|dbg)!' $core
# Excludes switches of tests and benchmarks: the program is built without them. Excludes cache/slice: plugins add
# results through the snapshot they borrow, and a result is the same whenever it is computed.
never "the engine has no lock and no interior mutability: one thread owns it" \
  '\b(Mutex|RwLock|RefCell|UnsafeCell|OnceLock|LazyLock|Atomic[A-Z][A-Za-z0-9]*|thread_local)\b' \
  $(find $core -name '*.rs' -not -path "$core/switches/*" -not -path "$core/cache/slice.rs" -not -path "$core/cache/slice/*")
checked=$((checked + 1))
found=$(cargo tree --locked --quiet --package supercargo --edges normal,build,features --target all --invert supercargo-core 2>&1 | grep -E 'mutations|ablation')
[ -z "$found" ] || breach "the program is built with a feature of tests" "$found"
found=$(code $core | grep -E 'std::collections::(\{[^}]*)?Hash(Map|Set)|\bRandomState\b' | grep -v "^$core/collections/hash.rs:")
checked=$((checked + 1))
[ -z "$found" ] || breach "only collections/hash.rs may use randomly ordered maps" "$found"

never "cache must not use queue, effects or plugins" '\b(queue|effect|plugins|scheduler)::' $core/cache $core/cache.rs
never "queue must not use cache, effects or plugins" '\b(cache|effect|plugins|scheduler)::' $core/queue $core/queue.rs
never "cycle and preemption must not use queue or effects" '\b(queue|effect|scheduler)::|&mut Cache\b|\bSchedulingQueue\b' \
  $core/cycle $core/cycle.rs $core/incremental $core/preemption $core/preemption.rs
never "the model must not use higher modules" '\b(cache|queue|framework|plugins|registry|cycle|incremental|preemption|scheduler)::' \
  $core/model $core/collections
# Results of slices belong to the snapshot.
never "plugins see the cluster only through the snapshot: no cache, queue, cycle, effects" \
  '\bCache\b|\bcache::([a-rt-z]|s[^l])[a-z_]*::|\b(queue|cycle|effect|scheduler|preemption)::|&mut Snapshot' $core/plugins

# The framework names no plugin; the registry does.
found=$(code $core/framework | grep -E '\b(plugins|registry)::')
checked=$((checked + 1))
[ -z "$found" ] || breach "only the registry may name plugins" "$found"

# Plugins do not name each other. A plugin is a file or a directory of plugins/. Exceptions are mod.rs, which lists them, and shared helpers
# (upstream's plugins/helper), which name no plugin.
helpers='normalize|shape'
plugins=$(find $core/plugins -mindepth 1 -maxdepth 1 2>/dev/null | sed -e 's|.*/||' -e 's|\.rs$||' |
  grep -vE "^(mod|tests|$helpers)\$" | sort -u)
for plugin in $plugins; do
  others=$(grep -vx "$plugin" <<<"$plugins" | paste -sd'|')
  [ -n "$others" ] || continue
  never "plugin $plugin names another plugin" "\\bplugins::($others)\\b|\\bsuper::($others)\\b" \
    "$core/plugins/$plugin" "$core/plugins/$plugin.rs"
done

for helper in ${helpers//|/ }; do
  never "helper $helper names a plugin" "\\b(plugins|super)::($(paste -sd'|' <<<"$plugins"))\\b" \
    "$core/plugins/$helper" "$core/plugins/$helper.rs"
done

# Write access to the cache and the queue.
found=$(code $core | grep -E '&mut (Cache|SchedulingQueue)\b' | grep -vE "^$core/(scheduler|cache|queue)(/|\.rs:)")
checked=$((checked + 1))
[ -z "$found" ] || breach "only the scheduler may hold &mut Cache and &mut SchedulingQueue" "$found"

never "shadow mode has no effects: it never steps the scheduler that keeps its state" '\bEffect\b|\b[Oo]utbox\b|watched\.step' $core/shadow

# --- the packages around it -------------------------------------------------------------------------------------------------------------
never "shadow mode must not use modules that write" '\b(write|lease)::|\b(Dispatcher|Election|Candidacy|Fence)\b' src/engine/shadow src/run/shadow.rs
never "the scheduling thread must not use Kubernetes types" '\b(k8s_openapi|kube)::' src/engine
never "watches and writes must not use internals of the engine" 'supercargo_core::(\{[^}]*)?\b(queue|plugins|cycle)\b' \
  crates/apiserver/src/watch src/write
never "metrics and serving must not use scheduling modules" 'supercargo_core::(\{[^}]*)?\b(queue|plugins|cycle|cache)\b' src/serve
never "commands use a client only through live" '\b(kube|tokio|hyper)::|\bsupercargo_apiserver::client\b' crates/cli/src/commands
never "explanations work on the trial they are given: no files, no trial of their own" \
  'std::(fs|net|env|process|io)\b|\b(Scheduler|Trial)::(default|new|with_tables)\(' crates/whatif/src/explain
never "offline decisions go through the scheduler: no cache and no cached decisions of their own" \
  '\b(Cache|DecisionCache|Hypothetical)\b|\bdecide_cached\b' crates/whatif/src crates/cli/src
found=$(code src crates/{cli,config,whatif}/src | grep -E 'serde_saphyr::(from_|with_|granit_parser|Spanned|options)' | grep -v '^crates/config/src/yaml/')
checked=$((checked + 1))
[ -z "$found" ] || breach "only crates/config/src/yaml may read YAML" "$found"

if [ "$broken" -gt 0 ]; then
  echo "module boundaries: $broken of $checked violated; see ARCHITECTURE.md for what each module may use" >&2
  exit 1
fi
echo "module boundaries: $checked checks passed"
