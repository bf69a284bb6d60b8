# find_package(logdur) gives
#   logdur_LIBRARY    the path of liblogdur.so, for HSA_TOOLS_LIB. The HSA runtime loads it; nothing links it
#   logdur_OMNIPROBE  the path of the command line
#   logdur::headers   a target with the folder of the headers, for message handlers and instrumented kernels

get_filename_component(_logdur_root "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(logdur_LIBRARY "${_logdur_root}/lib/liblogdur.so")
set(logdur_OMNIPROBE "${_logdur_root}/bin/omniprobe")
foreach(_logdur_file IN ITEMS "${logdur_LIBRARY}" "${logdur_OMNIPROBE}")
    if(NOT EXISTS "${_logdur_file}")
        set(logdur_FOUND FALSE)
        set(logdur_NOT_FOUND_MESSAGE "expected ${_logdur_file}, found no such file")
    endif()
endforeach()
if(NOT TARGET logdur::headers)
    add_library(logdur::headers INTERFACE IMPORTED)
    set_target_properties(logdur::headers PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${_logdur_root}/include")
endif()
unset(_logdur_root)
unset(_logdur_file)
