#!/usr/bin/env bash
# The fences between modules (ARCHITECTURE.md, "Who may know what"): what a compiler does not refuse by itself is looked for here.
# Reads manifests and source text only, builds nothing, and takes a second. Exits 1 and names each breach.
#
#   tests/fences.sh
#
# Comments and test modules are not read: they may speak of anything. What does not exist yet is passed over.
set -uo pipefail
cd "$(dirname "$0")/.."
broken=0 checked=0

breach() { # <what the fence is> <lines>
  echo "fence broken: $1" >&2
  sed 's/^/  /' <<<"$2" >&2
  broken=$((broken + 1))
}

# Prints the code of the given files and folders as file:line:text, without comments, test modules and test files.
code() {
  find "$@" -name '*.rs' -not -name tests.rs -not -path '*/tests/*' 2>/dev/null | sort | while read -r file; do
    awk -v file="$file" '
      pending && /^[[:space:]]*(pub )?mod [a-z_0-9]+ *\{/ { exit }
      { pending = /^[[:space:]]*#\[cfg\(test\)\]/ }
      { sub(/(^|[^:"])\/\/.*$/, ""); if ($0 !~ /^[[:space:]]*$/) print file ":" FNR ":" $0 }' "$file"
  done
}

# never <what the fence is> <extended regular expression> <files or folders...>
never() {
  local what=$1 pattern=$2 found
  shift 2
  checked=$((checked + 1))
  found=$(code "$@" | grep -E -- "^[^:]+:[0-9]+:.*($pattern)")
  [ -z "$found" ] || breach "$what" "$found"
}

# The crates a package is built from, without what its tests use. A tree that cannot be read is a breach, not a pass.
tree() { cargo tree --locked --quiet --package "$1" --edges normal,build --target all --prefix none --format '{p}'; }

only() { # <package> <the packages it may be built from, as an extended regular expression>
  local found
  checked=$((checked + 1))
  if ! found=$(tree "$1" 2>&1); then
    breach "the tree of $1 cannot be read" "$found"
    return
  fi
  found=$(grep -vE "^($2) v" <<<"$found")
  [ -z "$found" ] || breach "$1 depends on what it must not" "$found"
}

# --- packages -------------------------------------------------------------------------------------------------------------------------
only supercargo-core 'supercargo-core|fearless_simd'
only supercargo-sim 'supercargo-sim|supercargo-core|fearless_simd|proptest.*'

# The same once more in the words of cargo: asked who brings tokio into the engine, it finds no such crate.
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
# mutation.rs, with which tests switch mistakes on, is left out: the program is built without it.
never "the engine has no lock and no interior mutability: one thread owns it" \
  '\b(Mutex|RwLock|RefCell|UnsafeCell|OnceLock|LazyLock|Atomic[A-Z][A-Za-z0-9]*|thread_local)\b' \
  $(find $core -mindepth 1 -maxdepth 1 -not -name mutation.rs)
checked=$((checked + 1))
found=$(cargo tree --locked --quiet --package supercargo --edges normal,build,features --target all --invert supercargo-core 2>&1 | grep mutations)
[ -z "$found" ] || breach "the program is built with the switch for mistakes" "$found"
found=$(code $core | grep -E 'std::collections::(\{[^}]*)?Hash(Map|Set)|\bRandomState\b' | grep -v "^$core/hash.rs:")
checked=$((checked + 1))
[ -z "$found" ] || breach "maps of random order are only wrapped, in hash.rs" "$found"

never "cache does not know queue, effects or plugins" '\b(queue|effect|plugins|scheduler)::' $core/cache $core/cache.rs
never "queue does not know cache, effects or plugins" '\b(cache|effect|plugins|scheduler)::' $core/queue $core/queue.rs
never "cycle and preemption know neither queue nor effects" '\b(queue|effect|scheduler)::|&mut Cache\b|\bSchedulingQueue\b' \
  $core/cycle $core/cycle.rs $core/preemption $core/preemption.rs
never "the vocabulary knows nothing above it" '\b(cache|queue|framework|plugins|cycle|preemption|scheduler)::' \
  $core/{hash,intern,ln,node,node_set,pod,resources,rng,selector,time}.rs
never "plugins see the world through the snapshot: no cache, queue, cycle, effects" \
  '\bCache\b|\bcache::[a-z_]+::|\b(queue|cycle|effect|scheduler|preemption)::|&mut Snapshot' $core/plugins

# The framework names no plugin, except where the table of plugins is.
found=$(code $core/framework | grep -E '\bplugins::' | grep -v '^[^:]*registry[^:]*:')
checked=$((checked + 1))
[ -z "$found" ] || breach "the framework names plugins only in the registry" "$found"

# Plugins do not name each other. One is a file or a folder of plugins/. Left out are mod.rs, which lists them, and the helpers several of them
# share (upstream's plugins/helper), which in turn name no plugin.
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

# Who may change the cache and the queue.
found=$(code $core | grep -E '&mut (Cache|SchedulingQueue)\b' | grep -vE "^$core/(scheduler|cache|queue)(/|\.rs:)")
checked=$((checked + 1))
[ -z "$found" ] || breach "only the scheduler holds &mut Cache and &mut SchedulingQueue" "$found"

never "a shadow carries nothing out: no effects, no step of the scheduler that watches for it" '\bEffect\b|\b[Oo]utbox\b|watched\.step' $core/shadow

# --- the shell ------------------------------------------------------------------------------------------------------------------------
never "shadow mode is composed of nothing that writes" '\b(dispatch|lease)::|\b(Dispatcher|Election|Candidacy|Fence)\b' src/shadow src/run/shadow.rs
never "the driver knows no Kubernetes types" '\b(k8s_openapi|kube)::' src/driver src/driver.rs
never "convert turns objects into core types and does nothing else: no client, no channels" \
  '\b(kube|tokio|hyper|futures)::|\b(mpsc|oneshot|watch)::(Sender|Receiver|channel)' src/convert src/convert.rs
never "watch and dispatch do not look inside the engine" 'supercargo_core::(\{[^}]*)?\b(queue|plugins|cycle)\b|\bcore::(queue|plugins|cycle)::' \
  src/watch src/watch.rs src/dispatch src/dispatch.rs
never "metrics and serving do not schedule" 'supercargo_core::(\{[^}]*)?\b(queue|plugins|cycle|cache)\b' src/serve src/serve.rs
never "of the commands only live makes a client of the API server, which record watches with, or of a running scheduler" '\b(kube|tokio|hyper|reqwest)::|\bcrate::client\b' \
  $(find src/cli -mindepth 1 -maxdepth 1 -not -name live -not -name record.rs)
never "an explanation is made of a cluster in the engine's form: no client, no files, no channels, no cache but the one it is lent" \
  '\b(kube|tokio|hyper|k8s_openapi)::|std::(fs|net|env|process|io)\b|\b(Cache|Scheduler)::(default|new)\(' src/explain
never "the simulation knows the engine's public face alone, not the shell" '\bsupercargo::|\b(tokio|kube|k8s_openapi)::' crates/sim/src

if [ "$broken" -gt 0 ]; then
  echo "fences: $broken of $checked broken; ARCHITECTURE.md says who may know what, and where such a thing belongs" >&2
  exit 1
fi
echo "fences: $checked hold"
