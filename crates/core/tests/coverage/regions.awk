# Reads one line of llvm-cov's JSON for each file. Writes file, function and source line of each region, and whether it was reached.
{
    if (!match($0, /"filename":"[^"]*"/)) next
    path = substr($0, RSTART + 12, RLENGTH - 13)
    if (index(path, root) != 1 || !match($0, /"segments":\[\[.*\]\],"summary"/)) next
    segments = substr($0, RSTART + 13, RLENGTH - 25)
    short = substr(path, length(root) + 1)
    # The function of each line.
    name = "-"; last = 0
    while ((getline text < path) > 0) {
        if (match(text, /(^| )fn [a-z_0-9]+/)) { name = substr(text, RSTART, RLENGTH); sub(/.*fn /, "", name) }
        named[short, ++last] = name
    }
    close(path)
    count = split(segments, all, /\],\[/)
    for (at = 1; at <= count; at++) {
        # Line, column, count, whether it has a count, whether a region begins, whether it is a gap.
        split(all[at], of, ",")
        if (of[4] != "true" || of[5] != "true" || of[6] == "true") continue
        print short "\t" named[short, of[1]] "\t" of[1] "\t" of[2] "\t" (of[3] > 0)
    }
}
