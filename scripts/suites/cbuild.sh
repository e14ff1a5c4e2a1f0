#!/usr/bin/env bash
# A C project built on the mount: library, program, run, incremental rebuild, clean. Usage: cbuild.sh DIRECTORY
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

need gcc:gcc make:make
work_dir "${1:-}" cbuild
modules=60
mkdir -p src include
for n in $(seq "$modules"); do
    printf '#ifndef M%d_H\n#define M%d_H\nint value_%d(int x);\n#endif\n' "$n" "$n" "$n" >"include/m$n.h"
    printf '#include "m%d.h"\nint value_%d(int x) { return x + %d; }\n' "$n" "$n" "$n" >"src/m$n.c"
done
{
    for n in $(seq "$modules"); do printf '#include "m%d.h"\n' "$n"; done
    printf '#include <stdio.h>\nint main(void) {\n    int sum = 0;\n'
    for n in $(seq "$modules"); do printf '    sum += value_%d(%d);\n' "$n" "$n"; done
    printf '    printf("%%d\\n", sum);\n    return 0;\n}\n'
} >src/main.c
cat >Makefile <<'MAKE'
CFLAGS = -O1 -Wall -Werror -Iinclude -MMD -MP
OBJECTS = $(patsubst src/%.c,build/%.o,$(filter-out src/main.c,$(wildcard src/*.c)))

program: build/main.o build/libmodules.a
	$(CC) -o $@ build/main.o -Lbuild -lmodules
build/libmodules.a: $(OBJECTS)
	rm -f $@
	$(AR) rcs $@ $^
build/%.o: src/%.c
	@mkdir -p build
	$(CC) $(CFLAGS) -c -o $@ $<
clean:
	rm -rf build program
.PHONY: clean
-include build/*.d
MAKE

# compiled WHAT: how many objects the last make built.
compiled() { grep -c -- ' -c -o build/' make.log || true; }
build() { make -j2 >make.log 2>&1 || { tail -20 make.log >&2; fail "cbuild: make failed"; }; }

build
[[ $(compiled) == $((modules + 1)) ]] || fail "cbuild: built $(compiled) objects instead of $((modules + 1))"
wanted=$((modules * (modules + 1)))
[[ $(./program) == "$wanted" ]] || fail "cbuild: the program says $(./program), not $wanted"
build
[[ $(compiled) == 0 ]] || fail "cbuild: a second make built $(compiled) objects again: times are wrong"
sleep 0.05
touch src/m7.c
build
[[ $(compiled) == 1 ]] || fail "cbuild: after touching one source $(compiled) objects were built"
sleep 0.05
sed -i 's/return x + 7;/return x + 1007;/' src/m7.c
touch include/m9.h
build
[[ $(compiled) == 3 ]] || fail "cbuild: after changing a source and a header $(compiled) objects were built, not 3"
[[ $(./program) == $((wanted + 1000)) ]] || fail "cbuild: the rebuilt program says $(./program)"
strip program
cp program copy
[[ $(./copy) == $((wanted + 1000)) ]] || fail "cbuild: the stripped copy does not run"
make clean >/dev/null
[[ ! -e build && ! -e program ]] || fail "cbuild: make clean left something"
say "cbuild: $modules modules built, rebuilt and run"
