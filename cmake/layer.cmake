# Builds a layer of the source tree, and sets what all our own code is compiled with.

# Warnings and code generation for code of this repository (never for third-party code).
function(tidemark_own_code target)
  target_compile_options(
    ${target}
    PRIVATE -Wall
            -Wextra
            -Wpedantic
            -Wshadow
            -Wconversion
            -Wsign-conversion
            -Wold-style-cast
            -Wnon-virtual-dtor
            -Woverloaded-virtual
            -Wdouble-promotion
            # A designated initialiser names what differs from the default and leaves the rest out.
            -Wno-missing-field-initializers
            # A fused multiply-add rounds once instead of twice: figures would differ by machine.
            -ffp-contract=off)
  # g++ 12 follows null pointers only when it optimises, and then finds them inside the standard
  # library (streambuf, vector) where there are none; likewise overlapping copies inside
  # std::string's operator+ (GCC PR 105651). clang (preset tidy) does not need to optimise.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # It collects its garbage above 1 GB only: a tenth less time for a tenth more memory.
    target_compile_options(${target} PRIVATE -Wno-restrict "SHELL:--param ggc-min-heapsize=1000000")
  else()
    target_compile_options(${target} PRIVATE -Wnull-dereference)
  endif()
endfunction()

# How many sources are joined to a piece (CMAKE_UNITY_BUILD). Each piece reads its headers, and makes
# what their templates are used for, once: fewer pieces are less work, and need 2 to 4 GB each. On few
# cores a target is one piece (TIDEMARK_LARGE_PIECES); many want enough pieces for all of them. Each source has its helpers in
# a namespace of its own, so that any of them can be joined (tests/components_test.cpp). Who changes
# files one at a time waits less with -DCMAKE_UNITY_BUILD_BATCH_SIZE=4.
#   tidemark_joins_sources(TARGET [LARGEST])   LARGEST: sources to a piece on few cores, all by default
option(TIDEMARK_LARGE_PIECES "Join as many sources as builds fastest on few cores" OFF)
mark_as_advanced(TIDEMARK_LARGE_PIECES)
function(tidemark_joins_sources target)
  if(DEFINED CMAKE_UNITY_BUILD_BATCH_SIZE)
    return()
  endif()
  set(size 40)
  if(TIDEMARK_LARGE_PIECES)
    set(size 1000)
    if(ARGC GREATER 1)
      set(size ${ARGV1})
    endif()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD_BATCH_SIZE ${size})
endfunction()

# Headers that most sources of a target include, read once for all of them. Joined sources read them
# once anyway.
function(tidemark_precompiles_headers target)
  if(NOT CMAKE_UNITY_BUILD)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()

# Adds library tidemark_<name>, alias tidemark::<name>, from every .cpp under the current folder.
#   PUBLIC   what its headers need: the layer below it, packages seen in headers
#   PRIVATE  what only its .cpp files need
#   COLD     folders in which no step spends its time: a release compiles them at -O1, which takes a
#            third less of the compiler's time
# A folder without a .cpp yet becomes an INTERFACE library, so that the layers above it configure; the
# tests link every layer whole and need a .cpp in each.
function(tidemark_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 layer "" "" "PUBLIC;PRIVATE;COLD")
  set(target tidemark_${name})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  if(sources)
    set(scope PUBLIC)
    set(cold)
    if(layer_COLD)
      list(TRANSFORM layer_COLD REPLACE "(.+)" "${CMAKE_CURRENT_SOURCE_DIR}/\\1/*.cpp"
           OUTPUT_VARIABLE patterns)
      file(GLOB_RECURSE cold CONFIGURE_DEPENDS ${patterns})
      list(REMOVE_ITEM sources ${cold})
      add_library(${target}_cold OBJECT ${cold})
      target_link_libraries(${target}_cold PRIVATE ${layer_PUBLIC} ${layer_PRIVATE})
      target_compile_features(${target}_cold PRIVATE cxx_std_20)
      target_include_directories(${target}_cold PRIVATE ${PROJECT_SOURCE_DIR}
                                                        ${PROJECT_BINARY_DIR}/generated)
      tidemark_own_code(${target}_cold)
      tidemark_joins_sources(${target}_cold)
      target_compile_options(${target}_cold PRIVATE $<$<CONFIG:Release>:-O1>)
      set(cold $<TARGET_OBJECTS:${target}_cold>)
    endif()
    add_library(${target} STATIC ${sources} ${cold})
    target_link_libraries(${target} PRIVATE ${layer_PRIVATE})
    tidemark_own_code(${target})
    tidemark_joins_sources(${target})
  else()
    set(scope INTERFACE)
    add_library(${target} INTERFACE)
  endif()
  add_library(tidemark::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_link_libraries(${target} ${scope} ${layer_PUBLIC})
  target_compile_features(${target} ${scope} cxx_std_20)
  target_include_directories(
    ${target} ${scope} $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
              $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>
              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/tidemark>)
endfunction()

# Makes `target` an executable into which a policy compiled out of tree can be loaded. The plugin
# brings no copy of Tidemark: it resolves every symbol in the executable, also those that nobody in
# here calls, so the archives are linked whole and their symbols exported.
function(tidemark_hosts_plugins target)
  set(hosted)
  foreach(layer IN ITEMS graph hwprofiles policies)
    get_target_property(type tidemark_${layer} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      list(APPEND hosted tidemark_${layer})
    endif()
  endforeach()
  if(hosted)
    # An override of how the layers above pull them in: naming them once more would link them twice.
    list(JOIN hosted "," override)
    set_property(TARGET ${target} PROPERTY LINK_LIBRARY_OVERRIDE "WHOLE_ARCHIVE,${override}")
  endif()
  set_target_properties(${target} PROPERTIES ENABLE_EXPORTS ON)
  target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
endfunction()
