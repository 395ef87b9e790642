{
  "targets": [
    {
      "target_name": "perftax_tag",
      "sources": ["src/tag.c"],
      "cflags": ["-O2", "-Wall", "-Wextra"],
      "ldflags": ["-Wl,-z,nodelete"]
    }
  ]
}
