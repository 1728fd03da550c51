# GCC of this machine for wheels: against the C library's symbols of an older release, and with the C++ library within. Set
# by tools/releasing/targets.py: RELEASE_MACHINE, RELEASE_COMPILER, RELEASE_STRIP, and RELEASE_STUBS, a folder with the C
# library's symbols and older_glibc.o.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES RELEASE_MACHINE RELEASE_COMPILER RELEASE_STRIP RELEASE_STUBS)
if(NOT CMAKE_HOST_SYSTEM_PROCESSOR STREQUAL RELEASE_MACHINE)
  set(CMAKE_SYSTEM_NAME Linux)
  set(CMAKE_SYSTEM_PROCESSOR ${RELEASE_MACHINE})
endif()
set(CMAKE_CXX_COMPILER ${RELEASE_COMPILER})
set(CMAKE_STRIP ${RELEASE_STRIP})
# What starts a program is of this machine's C library: nothing but modules can be linked.
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(stubs ${RELEASE_STUBS})
string(CONCAT CMAKE_CXX_STANDARD_LIBRARIES_INIT "-nodefaultlibs ${stubs}/older_glibc.o -Wl,--exclude-libs,ALL "
  "-Wl,-Bstatic -lstdc++ -Wl,-Bdynamic -Wl,--as-needed ${stubs}/libm.so.6 ${stubs}/libc.so.6 ${stubs}/libpthread.so.0 "
  "${stubs}/libdl.so.2 ${stubs}/libld.so.2 -lgcc -lgcc_s ${stubs}/libc_nonshared.a")
