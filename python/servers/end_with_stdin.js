// Loaded before a server: it ends when whoever started it has closed its standard input, or was killed.
process.stdin.on("end", () => process.exit(0)).resume();
