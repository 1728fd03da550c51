// The first line of a source of loops that gain next to nothing from the widest registers, since they wait
// for memory or for each other:
//
//     #include "for_narrow.h"
//
// The build compiles it for all levels but the highest (core/CMakeLists.txt), whose processors run the loops
// of the level below.
#pragma once
