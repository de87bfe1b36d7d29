# The page's core is downloaded, so it is compiled for size, and for speed in the folders where a drag and a search spend
# their time. Everywhere else nothing is set apart.

set(steelyard_hot_folders "/src/(allocator|ledger|predict|schedule|cost|plan)/")

# Moves the sources of hot folders from LIST into HOT.
function(steelyard_take_hot list hot)
  set(${hot} "" PARENT_SCOPE)
  if(NOT EMSCRIPTEN)
    return()
  endif()
  set(fast ${${list}})
  list(FILTER fast INCLUDE REGEX "${steelyard_hot_folders}")
  set(small ${${list}})
  list(FILTER small EXCLUDE REGEX "${steelyard_hot_folders}")
  set(${hot} ${fast} PARENT_SCOPE)
  set(${list} ${small} PARENT_SCOPE)
endfunction()

# Compiles HOT for speed and adds its objects to TARGET, which is compiled for size.
function(steelyard_add_hot target hot)
  if(NOT EMSCRIPTEN)
    return()
  endif()
  target_compile_options(${target} PRIVATE -Oz)
  add_library(${target}_hot OBJECT ${hot})
  target_compile_options(${target}_hot PRIVATE -O2)
  target_include_directories(${target}_hot PRIVATE src)
  target_link_libraries(${target}_hot PRIVATE steelyard_libraries steelyard_warnings)
  steelyard_unity(${target}_hot)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_hot>)
endfunction()
