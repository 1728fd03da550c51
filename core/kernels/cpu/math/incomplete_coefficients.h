// The numbers of incomplete.h: written by incomplete_coefficients.py, which says what they are.
#pragma once

#include "bits.h"

namespace adjoint::inline ADJOINT_ISA::math::coefficients {

struct Incomplete {
  static constexpr double factorial[9][17] = {
      {0x1.544fa6d47b390p+0, 0x1.de9585f1a7096p-1, 0x1.4f224d4b7e01bp-1, 0x1.03f6d2fa4f09ep-2,
       0x1.c138b89493350p-4, 0x1.d0a9bc4a28658p-6, 0x1.5489cc6ae7158p-7, 0x1.a55ed091982b5p-10,
       0x1.8b8fcedc96c36p-11, 0x1.089b15fa407d3p-18, 0x1.013c10caf30edp-14, -0x1.add74a3bf8f4fp-17,
       0x1.e70811ccd5090p-18, -0x1.52bbc5bdc9e11p-19, 0x1.1e9086a696877p-20, -0x1.0fad5e05ca86fp-21,
       0x1.b5cafaae0b822p-23},
      {0x1.a96390899a074p+1, 0x1.d545472146024p+1, 0x1.491ad1cb98836p+1, 0x1.4a0b6a823092ap+0,
       0x1.0e5d232b95858p-1, 0x1.71d1672129e9bp-3, 0x1.bd2afde7e4a03p-5, 0x1.d8376e1052dcfp-7,
       0x1.c9e94992aa4fcp-9, 0x1.90ba725af46cbp-11, 0x1.49cfedad81d67p-13, 0x1.ec01a26f6f192p-16,
       0x1.65e5980822acap-18, 0x1.ca0a7e5b0ba71p-21, 0x1.378e292724841p-23, 0x1.47319a9db9833p-26,
       0x1.f17ea6fcaa675p-29},
      {0x1.74371e7866c65p+3, 0x1.027ac12fc1e1ep+4, 0x1.9548c95a76f39p+3, 0x1.c5576617b6c23p+2,
       0x1.919734073b1e2p+1, 0x1.28fa2eb44cedap+0, 0x1.7bab82a608fafp-2, 0x1.ad2dbf1b5ab42p-4,
       0x1.b471c73853f16p-6, 0x1.9446369857eadp-8, 0x1.58a8312963043p-10, 0x1.10886d36c69b3p-12,
       0x1.929543bb46b81p-15, 0x1.1716a38a01ebap-17, 0x1.6d53712ea5cd5p-20, 0x1.cef63711d781bp-23,
       0x1.106c81d622083p-25},
      {0x1.a2be0247739f2p+5, 0x1.5150fd24c6f6fp+6, 0x1.2497a18ed3617p+6, 0x1.64535bc3f48a5p+5,
       0x1.533ae6c9fef18p+4, 0x1.0b72874739ddcp+3, 0x1.6a0d90d78b840p+1, 0x1.af3f7cd2b2228p-1,
       0x1.cc16df9d5c91dp-3, 0x1.bda06213aba7ep-5, 0x1.8c01b6f373a7cp-7, 0x1.45a0f36936bc2p-9,
       0x1.f2fc63501e62cp-12, 0x1.6637898d391f6p-14, 0x1.e49593343f2f2p-17, 0x1.3d64c53c2593cp-19,
       0x1.80b824915ee57p-22},
      {0x1.1fe2a1911f7d6p+8, 0x1.02138e2dc003bp+9, 0x1.e6a4bd6d9463cp+8, 0x1.3e1f377a6cf7cp+8,
       0x1.424d559bdc68ap+7, 0x1.0cad76b37741cp+6, 0x1.7ea29737ccd99p+4, 0x1.dd826e3d099c3p+2,
       0x1.09f7bc12c45acp+1, 0x1.0c34d9723121cp-1, 0x1.ef115ed135574p-4, 0x1.a5dfac55ee676p-6,
       0x1.4e573bd825d00p-8, 0x1.efae058606849p-11, 0x1.59af2f609247ep-13, 0x1.d2e31fcee3408p-16,
       0x1.22f1af300b68cp-18},
      {0x1.d3d0468bd32bdp+10, 0x1.c75c1b3c7bf5bp+11, 0x1.cbeabd747891fp+11, 0x1.3f4df4c12b164p+11,
       0x1.5566a36d3e52fp+10, 0x1.2ae045d8c79a2p+9, 0x1.bd3ad6371211bp+7, 0x1.21a5a2970ed05p+6,
       0x1.4f79e45e81f0dp+4, 0x1.5ee6ce73c00d6p+2, 0x1.4f397b3e163c5p+0, 0x1.2727551c8ab76p-2,
       0x1.e296b6ca95ecbp-5, 0x1.7079685f77a33p-7, 0x1.085aaca0bd0e5p-9, 0x1.6f585fc4e1a6ap-12,
       0x1.d5d5ee3e7ae56p-15},
      {0x1.b693422315f91p+13, 0x1.c8235df171691p+14, 0x1.e8179504c0879p+14, 0x1.64d66d23a777dp+14,
       0x1.8fe3b666b5335p+13, 0x1.6d8bea568a117p+12, 0x1.1b6ba5e0025edp+11, 0x1.7ed9fdfbe31afp+9,
       0x1.cb5517642139ep+7, 0x1.f0b5535084ff6p+5, 0x1.e9b94ac414df4p+3, 0x1.bc51d01d02ff9p+1,
       0x1.75ca503d3ba2ap-1, 0x1.2550f038499f0p-3, 0x1.b011b6066d0f1p-6, 0x1.344529ceed127p-8,
       0x1.93e8778fba6edp-11},
      {0x1.d1fc76454758ap+16, 0x1.000763f95cefap+18, 0x1.1fcebd099d5e9p+18, 0x1.b826c6967a018p+17,
       0x1.010bc68b05324p+17, 0x1.e85d96959ee5cp+15, 0x1.88855ad3a5092p+14, 0x1.123eb8663fe21p+13,
       0x1.53bbb3ec2a6d8p+11, 0x1.7ab599bf9b955p+9, 0x1.8057c48c4c567p+7, 0x1.6679f4d664b68p+5,
       0x1.35a7eea7c86e5p+3, 0x1.f273af3879904p+0, 0x1.7831e0cf8ebf8p-2, 0x1.132379b59aa1bp-4,
       0x1.70b6146bd1941p-7},
      {0x1.14ade639225cap+20, 0x1.3e98aa6a48975p+21, 0x1.75c66cfa967e4p+21, 0x1.2950dd8a8c1dep+21,
       0x1.6842d497e56bep+20, 0x1.623a830b96a3ep+19, 0x1.261ae0c05dda2p+18, 0x1.a7cbd1af1f1e8p+16,
       0x1.0e4720edc9298p+15, 0x1.35cabff0a46bcp+13, 0x1.42e183233438ap+11, 0x1.34ee824c04d61p+9,
       0x1.117a32e9382f2p+7, 0x1.c2b33ac8fca10p+4, 0x1.5bfa89495b25cp+2, 0x1.04790b631c9d4p+0,
       0x1.647dd8fad1c0dp-3}};
  static constexpr double temme0[] = {
      -0x1.5555555555555p-2,  0x1.5555555555555p-4,   -0x1.e573ac901e574p-7,  0x1.2f684bda12f68p-10,
      0x1.71de3a556c734p-12,  -0x1.76e06fec7273bp-13, 0x1.48c5892f7cd83p-15,  -0x1.255370652afc1p-19,
      -0x1.f1b22f594c6b5p-20, 0x1.bd6d21e4b4109p-21,  -0x1.7b5f9a2d0465cp-23, 0x1.ccf5ceb7f0d9fp-28,
      0x1.6097d55c37c1cp-27,  -0x1.2d2197c7a2faap-28, 0x1.f6e66d24d5c8ap-31,  -0x1.c0d9b6edf2b0bp-36};
  static constexpr double temme1[] = {-0x1.e573ac901e574p-10, -0x1.c71c71c71c71cp-9, 0x1.5ac056b015ac0p-9,
                                      -0x1.0394f6f09e723p-10, 0x1.af83440e53dbcp-13, -0x1.af83440e53dbcp-22,
                                      -0x1.2fa4ae89e5af0p-16, 0x1.00a9cabd6b83ep-17, -0x1.b0bdfcc629cbap-20,
                                      0x1.3f59230a8357cp-28,  0x1.280f2cde3f847p-23, -0x1.ee23d0cba8aeep-25,
                                      0x1.9aa7a30de114cp-27,  -0x1.349fbca3a377bp-36};
  static constexpr double temme2[] = {0x1.0ee643b990ee6p-8,   -0x1.5f7268edab4c8p-9,  0x1.948b0fcd6e9e0p-11,
                                      0x1.0db20a88f4696p-19,  -0x1.c253efaa1a932p-14, 0x1.bbf43daf4fe53p-15,
                                      -0x1.ac2d05890f2c3p-17, 0x1.26154ae39151dp-25,  0x1.7058929663937p-20,
                                      -0x1.522cb05171911p-21, 0x1.32ac81c15d3d7p-23,  -0x1.c24bd0e740a6cp-33};
  static constexpr double temme3[] = {0x1.547d93b34e2b6p-11,  0x1.e13ce465fa859p-13,  -0x1.ebfb188b7ca00p-12,
                                      0x1.18b9b5bf2d984p-12,  -0x1.3d2a3a29b5d9dp-14, -0x1.0152a1871f27ap-22,
                                      0x1.73df462204ef4p-17,  -0x1.7cd6f27b3f020p-18, 0x1.7e0201539310ep-20,
                                      -0x1.ea23269c140a7p-36, -0x1.6c2dcffbefeefp-23};
  static constexpr double temme4[] = {-0x1.c3e0b02da7bf9p-11, 0x1.9b0ff6874f2c4p-11, -0x1.3999a85a4237ap-12,
                                      -0x1.88f2ae1def9d0p-20, 0x1.16908b48ce058p-14, -0x1.4ce3fd902bcadp-15,
                                      0x1.7db4c02846e81p-17,  0x1.13b3c5b7cb45ep-32, -0x1.c71c074985d3fp-20,
                                      0x1.de37d9f09164cp-21};
  static constexpr double temme5[] = {-0x1.6128ac5a4fa71p-12, -0x1.247604839c038p-14, 0x1.22be87360ef1fp-12,
                                      -0x1.a2042c5148e27p-13, 0x1.1d1e9cb24760bp-14,  0x1.30bdcf208080ep-23,
                                      -0x1.c823fc1b3cc36p-17, 0x1.0d0e229150428p-17,  -0x1.338eb19652fd9p-19};
  static constexpr double temme6[] = {0x1.168ef1b0931c8p-11,  -0x1.36773bdb97b48p-11, 0x1.1c0950d3ecb9dp-12,
                                      0x1.a8411da6cab49p-21,  -0x1.5600945495b37p-14, 0x1.d6bdf83130dc1p-15,
                                      -0x1.3382f4cf48618p-16, -0x1.a74243fa27729p-29};
  static constexpr double temme7[] = {0x1.691879c01efb4p-12, 0x1.b1d75d3346711p-15,  -0x1.5f3385098cebfp-12,
                                      0x1.26eeb5ece1d9fp-12, -0x1.cc642787368cep-14, -0x1.119c70312e0a2p-23};
  static constexpr double temme8[] = {-0x1.5629b3187b744p-11, 0x1.b8239c670e690p-11, -0x1.cb967b4446107p-12,
                                      -0x1.762676b30cfd6p-21, 0x1.5d1157082916dp-13};
  static constexpr double temme9[] = {-0x1.38dff1cc96982p-11, -0x1.2e31f9b7913eap-14, 0x1.63969bb825829p-11,
                                      -0x1.4f9f2582dd0a5p-11};
  static constexpr double temme10[] = {0x1.5d4ae684527bfp-10, -0x1.f5dbcaf756cdep-10};
};

}  // namespace adjoint::inline ADJOINT_ISA::math::coefficients
