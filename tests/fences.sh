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

# A second check through `cargo tree --invert`: nothing brings these crates into the engine.
for crate in tokio kube kube-client k8s-openapi hyper prometheus serde tracing; do
  checked=$((checked + 1))
  if found=$(cargo tree --locked --quiet --package supercargo-core --edges normal,build --target all --invert "$crate" 2>/dev/null) &&
    [ -n "$found" ]; then
    breach "the engine is built with $crate" "$found"
  fi
done

# --- the engine -----------------------------------------------------------------------------------------------------------------------
core=crates/core/src
never "the engine does no I/O, reads no clock, starts no thread" \
  'std::(fs|net|env|process|thread|io)\b|\b(Instant|SystemTime)\b|\b(e?print(ln)?|dbg)!' $core
# Excludes mutation.rs and ablation.rs, switches of tests and benchmarks: the program is built without them. Excludes slice.rs: plugins add
# results through the snapshot they borrow, and a result is the same whenever it is computed.
never "the engine has no lock and no interior mutability: one thread owns it" \
  '\b(Mutex|RwLock|RefCell|UnsafeCell|OnceLock|LazyLock|Atomic[A-Z][A-Za-z0-9]*|thread_local)\b' \
  $(find $core -mindepth 1 -maxdepth 1 -not -name mutation.rs -not -name ablation.rs -not -name slice.rs)
checked=$((checked + 1))
found=$(cargo tree --locked --quiet --package supercargo --edges normal,build,features --target all --invert supercargo-core 2>&1 | grep -E 'mutations|ablation')
[ -z "$found" ] || breach "the program is built with a feature of tests" "$found"
found=$(code $core | grep -E 'std::collections::(\{[^}]*)?Hash(Map|Set)|\bRandomState\b' | grep -v "^$core/hash.rs:")
checked=$((checked + 1))
[ -z "$found" ] || breach "only hash.rs may use randomly ordered maps" "$found"

never "cache must not use queue, effects or plugins" '\b(queue|effect|plugins|scheduler)::' $core/cache $core/cache.rs
never "queue must not use cache, effects or plugins" '\b(cache|effect|plugins|scheduler)::' $core/queue $core/queue.rs
never "cycle and preemption must not use queue or effects" '\b(queue|effect|scheduler)::|&mut Cache\b|\bSchedulingQueue\b' \
  $core/cycle $core/cycle.rs $core/incremental $core/preemption $core/preemption.rs
never "the basic types must not use higher modules" '\b(cache|queue|framework|plugins|cycle|preemption|scheduler)::' \
  $core/{hash,intern,ln,node,node_set,pod,resources,rng,selector,time}.rs
never "plugins see the cluster only through the snapshot: no cache, queue, cycle, effects" \
  '\bCache\b|\bcache::[a-z_]+::|\b(queue|cycle|effect|scheduler|preemption)::|&mut Snapshot' $core/plugins

# The framework names no plugin, except in the registry.
found=$(code $core/framework | grep -E '\bplugins::' | grep -v '^[^:]*registry[^:]*:')
checked=$((checked + 1))
[ -z "$found" ] || breach "only the registry of the framework may name plugins" "$found"

# Plugins do not name each other. A plugin is a file or a directory of plugins/. Exceptions are mod.rs, which lists them, and shared helpers
# (upstream's plugins/helper), which name no plugin.
helpers='normalize'
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

# --- the shell ------------------------------------------------------------------------------------------------------------------------
never "shadow mode must not use modules that write" '\b(dispatch|lease)::|\b(Dispatcher|Election|Candidacy|Fence)\b' src/engine/shadow src/run/shadow.rs
never "the driver must not use Kubernetes types" '\b(k8s_openapi|kube)::' src/engine src/engine.rs
never "convert only turns objects into core types: no client, no channels" \
  '\b(kube|tokio|hyper|futures)::|\b(mpsc|oneshot|watch)::(Sender|Receiver|channel)' crates/objects/src/convert crates/objects/src/convert.rs
never "watch and dispatch must not use internals of the engine" 'supercargo_core::(\{[^}]*)?\b(queue|plugins|cycle)\b|\bcore::(queue|plugins|cycle)::' \
  crates/apiserver/src/watch crates/apiserver/src/watch.rs src/write src/write.rs
never "metrics and serving must not use scheduling modules" 'supercargo_core::(\{[^}]*)?\b(queue|plugins|cycle|cache)\b' src/serve src/serve.rs
never "among the commands, only live and record may use a client" '\b(kube|tokio|hyper|reqwest)::|\bcrate::client\b' \
  $(find crates/cli/src/commands -mindepth 1 -maxdepth 1 -not -name live -not -name record.rs)
never "explain works on the cache it is given: no client, no files, no channels, no cache of its own" \
  '\b(kube|tokio|hyper|k8s_openapi)::|std::(fs|net|env|process|io)\b|\b(Cache|Scheduler)::(default|new)\(' crates/whatif/src/explain
never "the simulation uses only the public interface of the engine" '\bsupercargo::|\b(tokio|kube|k8s_openapi)::' crates/sim/src

if [ "$broken" -gt 0 ]; then
  echo "module boundaries: $broken of $checked violated; see ARCHITECTURE.md for what each module may use" >&2
  exit 1
fi
echo "module boundaries: $checked checks passed"
