# The archive of programs that travels to a machine with a GPU. To be sourced.
packed_programs=build/gpu-pack/programs.tar.xz

# pack_programs FOLDER: all of it. Every program holds every kernel, so a window wider than a program makes the whole
# little larger than one of them: 7 MiB instead of 61 by gzip.
pack_programs() {
  tar -C "$1" -c . | xz -T1 --lzma2=preset=2,dict=128MiB >"$packed_programs"
}

# unpack_programs FOLDER: into a folder that exists. Not every machine has xz; Python has it built in.
unpack_programs() {
  if command -v xz >/dev/null; then tar -C "$1" -xJf "$packed_programs"; else python3 -m tarfile -e "$packed_programs" "$1"; fi
}
