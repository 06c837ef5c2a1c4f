# SPDX-License-Identifier: Apache-2.0
# For a tap of one's own, on Linux. Not published. `make recipes` writes archive and checksum into dist/batchfit.rb.
class Batchfit < Formula
  desc "Fits a PyTorch training to a GPU, without needing the GPU"
  homepage "https://github.com/OWNER/batchfit"
  url "@URL@"
  version "@VERSION@"
  sha256 "@SHA256@"
  license all_of: ["Apache-2.0", "MIT"]

  depends_on "gettext" => :build
  depends_on "libpq" => :build
  depends_on "meson" => :build
  depends_on "ninja" => :build
  depends_on "pkgconf" => :build
  depends_on "python@3.13" => :build
  depends_on "jansson"
  depends_on "libfyaml"
  depends_on "libmicrohttpd"
  depends_on :linux
  depends_on "ncurses"
  depends_on "sqlite"
  depends_on "zlib"
  depends_on "zstd"

  def install
    system "meson", "setup", "build", *std_meson_args, "-Dtests=disabled", "-Dprefer_static=false", "-Ddygraphs=third_party/dygraphs",
           "-Drpath=#{Formula["libmicrohttpd"].opt_lib}"
    system "meson", "compile", "-C", "build"
    system "meson", "install", "-C", "build"
  end

  test do
    assert_match "FITS", shell_output("#{bin}/batchfit fit --model resnet50 --gpu rtx3060")
  end
end
