# The device on paper and the observer, as files inside the program: `rehearse` unpacks them for each run. The libraries bear the
# names by which PyTorch looks for NVIDIA's.

if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  enable_language(C)
endif()

function(steelyard_embed_paper target)
  set(generated ${PROJECT_BINARY_DIR}/generated/embedded_paper.cc)
  set(named)
  set(made)
  # Linux alone has a CUDA build of PyTorch.
  if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
    set(folder ${PROJECT_BINARY_DIR}/generated/paper)
    file(GLOB devices CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/data/devices/*.json)
    add_custom_command(
      OUTPUT ${folder}/devices_table.h
      COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
      COMMAND ${STEELYARD_PYTHON} ${PROJECT_SOURCE_DIR}/paper/write_devices.py ${PROJECT_SOURCE_DIR}/data > ${folder}/devices_table.h
      DEPENDS ${devices} ${PROJECT_SOURCE_DIR}/data/architectures.json ${PROJECT_SOURCE_DIR}/paper/write_devices.py
      COMMENT "Listing the devices that can be on paper"
      VERBATIM)
    set(source ${PROJECT_SOURCE_DIR}/paper)
    add_library(steelyard_paper MODULE ${source}/properties.c ${source}/memory.c ${source}/values.c ${source}/runtime.c
                                       ${source}/driver.c ${source}/libraries.c ${source}/collectives.c ${source}/table.c ${folder}/devices_table.h)
    target_include_directories(steelyard_paper PRIVATE ${source} ${folder})
    add_library(steelyard_paper_nvml MODULE ${source}/nvml.c)
    foreach(pair "steelyard_paper=libcuda.so.1" "steelyard_paper_nvml=libnvidia-ml.so.1")
      string(REPLACE "=" ";" both ${pair})
      list(GET both 0 library)
      list(GET both 1 name)
      set_target_properties(${library} PROPERTIES C_STANDARD 11 C_VISIBILITY_PRESET hidden PREFIX "" INTERPROCEDURAL_OPTIMIZATION OFF)
      # Sanitizers of the program are not the user's: these are loaded into another process.
      target_compile_options(${library} PRIVATE -O1 -Wall -fno-sanitize=all)
      target_link_options(${library} PRIVATE -Wl,-soname,${name} -Wl,-s -fno-sanitize=all)
      list(APPEND named "${name}=$<TARGET_FILE:${library}>")
      list(APPEND made ${library})
    endforeach()
    file(GLOB_RECURSE observer CONFIGURE_DEPENDS ${source}/observer/*.py)
    foreach(path ${observer})
      file(RELATIVE_PATH name ${source} ${path})
      list(APPEND named "${name}=${path}")
    endforeach()
  endif()
  add_custom_command(
    OUTPUT ${generated}
    COMMAND ${STEELYARD_PYTHON} ${PROJECT_SOURCE_DIR}/cmake/embed_paper.py --out ${generated} ${named}
    DEPENDS ${made} ${observer} ${PROJECT_SOURCE_DIR}/cmake/embed_paper.py
    COMMENT "Embedding paper/"
    VERBATIM)
  set_source_files_properties(${generated} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE ${generated})
endfunction()
