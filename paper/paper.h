// What the files of the device on paper share.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define API __attribute__((visibility("default")))
enum { kSuccess = 0, kOutOfMemory = 2, kNotSupported = 801 };

// ---- the device (properties.c): one of data/devices, by the name in PAPER_DEVICE ---------------------------------------------

typedef struct {
  const char *name, *description;
  size_t capacity;
  int major, minor, multiprocessors;
  size_t shared_per_multiprocessor, shared_opt_in, l2;
  int threads_per_multiprocessor, blocks_per_multiprocessor;
} DeviceKind;

const DeviceKind* device_kind(void);
int devices(void);            // how many there are: PAPER_DEVICES
size_t capacity(void);        // of each: PAPER_DEVICE_BYTES, else as the kind has
int* current_device(void);    // of this thread
size_t number_from_environment(const char* name, size_t otherwise);

// ---- memory (memory.c): addresses without pages ------------------------------------------------------------------------------

int give(void** address, size_t bytes, int device);  // kOutOfMemory where it is full
void take_back(void* address);
int give_piece(unsigned long long* handle, size_t bytes, int device);  // memory without an address, for expandable segments
void take_back_piece(unsigned long long handle);
void* reserve(size_t bytes, int device);  // an address without memory
int device_of(const void* address);       // -1: none of the devices'
size_t free_bytes_now(int device);
int give_pinned(void** address, size_t bytes);
void take_back_pinned(void* address);
int is_pinned(const char* address);
void communicator_made(void);

// ---- values (values.c) -------------------------------------------------------------------------------------------------------

int copy(void* to, const void* from, size_t bytes);
void fill(void* at, int byte, size_t bytes);

// ---- the table (table.c) -----------------------------------------------------------------------------------------------------

void* new_handle(void);
void* answered(const char* name);  // the function of that name, or one that writes down that it was called
int not_answered(const char* name);
