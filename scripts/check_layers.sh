#!/usr/bin/env bash
# Checks every direct #include under kernels/, lib/ and tools/ against the file LAYERS. Prints each arrow that points the
# wrong way and exits 1 if there is one.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

find kernels lib tools -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' | sort | xargs awk '
    # Rooms are kernels, lib/<name> and tools.
    function room_of(path,   parts) {
        split(path, parts, "/")
        return parts[1] == "lib" ? "lib/" parts[2] : parts[1]
    }
    BEGIN {
        while ((getline line < "LAYERS") > 0) {
            if (line ~ /^#/ || line !~ /:/) continue
            room = substr(line, 1, index(line, ":") - 1)
            known[room] = 1
            gsub(/, /, ",", line)
            count = split(substr(line, index(line, ":") + 1), words, " ")
            for (i = 1; i <= count; ++i) {
                name = words[i]
                headers = ""
                if (match(name, /\(.*\)/)) {
                    headers = substr(name, RSTART + 1, RLENGTH - 2)
                    name = substr(name, 1, RSTART - 1)
                }
                allowed[room, name] = 1
                only[room, name] = headers
            }
        }
    }
    /^[ \t]*#[ \t]*include[ \t]*"/ {
        split($0, quoted, "\"")
        target = quoted[2]
        if (target !~ /^(kernels|lib|tools)\//) {
            if (target !~ /\//) next   # a neighbour in the same folder
            printf "%s:%d: includes \"%s\": write includes from the root of the project\n", FILENAME, FNR, target
            ++faults
            next
        }
        from = room_of(FILENAME); to = room_of(target)
        ++includes
        if (!(from in known)) { printf "%s: room %s is not in LAYERS\n", FILENAME, from; ++faults; next }
        if (from == to) next
        if (!((from, to) in allowed)) {
            printf "%s:%d: %s may not include %s (%s)\n", FILENAME, FNR, from, to, target
            ++faults
        } else if (only[from, to] != "") {
            count = split(only[from, to], names, ",")
            found = 0
            for (i = 1; i <= count; ++i) if (to "/" names[i] == target) found = 1
            if (!found) { printf "%s:%d: %s may include only %s of %s\n", FILENAME, FNR, from, only[from, to], to; ++faults }
        }
    }
    END {
        printf "layers: %d includes checked, %d wrong\n", includes, faults
        exit faults > 0 || includes == 0
    }'
