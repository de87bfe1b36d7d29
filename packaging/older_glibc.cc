// What g++ 12 and its C++ library ask of the C library, and glibc 2.28 did not have. Linked into each object that must run
// on older systems (older_glibc.py); nothing of it is seen from outside.

#include <link.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <cstdint>

#define STEELYARD_HIDDEN __attribute__((visibility("hidden")))

extern "C" {

// 2.32. Whether there is one thread alone: then the C++ library counts without locks. False is always right.
STEELYARD_HIDDEN char __libc_single_threaded = 0;

// 2.33. Before, these were functions of libc_nonshared.a around calls that name the version of struct stat.
#define STEELYARD_STAT(name, versioned, what, shape)                      \
  int versioned(int version, what, struct shape* out);                    \
  STEELYARD_HIDDEN int name(what of, struct shape* out) noexcept {        \
    return versioned(1, of, out);                                         \
  }
using Path = const char*;
STEELYARD_STAT(stat, __xstat, Path, stat)
STEELYARD_STAT(fstat, __fxstat, int, stat)
STEELYARD_STAT(lstat, __lxstat, Path, stat)
STEELYARD_STAT(stat64, __xstat64, Path, stat64)
STEELYARD_STAT(fstat64, __fxstat64, int, stat64)
STEELYARD_STAT(lstat64, __lxstat64, Path, stat64)

// 2.36. std::random_device takes its seeds from it.
STEELYARD_HIDDEN std::uint32_t arc4random() noexcept {
  std::uint32_t number = 0;
  while (getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number)) continue;
  return number;
}

namespace {

// Where the code at `address` tells how it is unwound.
struct Search {
  ElfW(Addr) address;
  struct dl_find_object* found;
};

int look_at(struct dl_phdr_info* object, std::size_t, void* data) {
  auto* search = static_cast<Search*>(data);
  const ElfW(Phdr)* holds = nullptr;
  const ElfW(Phdr)* frames = nullptr;
  for (int at = 0; at < object->dlpi_phnum; ++at) {
    const ElfW(Phdr)& part = object->dlpi_phdr[at];
    const ElfW(Addr) start = object->dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD && search->address >= start &&
        search->address < start + part.p_memsz)
      holds = &part;
    if (part.p_type == PT_GNU_EH_FRAME) frames = &part;
  }
  if (holds == nullptr) return 0;
  if (frames == nullptr) return -1;
  const ElfW(Addr) start = object->dlpi_addr + holds->p_vaddr;
  search->found->dlfo_map_start = reinterpret_cast<void*>(start);
  search->found->dlfo_map_end = reinterpret_cast<void*>(start + holds->p_memsz);
  search->found->dlfo_eh_frame =
      reinterpret_cast<void*>(object->dlpi_addr + frames->p_vaddr);
  return 1;
}

}  // namespace

// 2.35. The unwinder of exceptions asks it; before, it walked the objects itself, as here.
STEELYARD_HIDDEN int _dl_find_object(void* address, struct dl_find_object* found) noexcept {
  *found = {};
  Search search{reinterpret_cast<ElfW(Addr)>(address), found};
  return dl_iterate_phdr(look_at, &search) == 1 ? 0 : -1;
}

}  // extern "C"
