package persistence

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/weirflow/weir/core"
)

// encZstd names the compression in a manifest.
const encZstd = "zstd"

// One encoder and one decoder serve all Stores: they hold no state between calls, are safe
// for concurrent use, and cost megabytes. They are made when first needed, since most states
// are small and never are.
var (
	zstdEncoder = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic(err) // the options are constants
		}
		return e
	})
	zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderLowmem(true))
		if err != nil {
			panic(err) // the options are constants
		}
		return d
	})
)

func compress(b []byte) []byte {
	return zstdEncoder().EncodeAll(b, make([]byte, 0, len(b)/2))
}

// decompress returns exactly size bytes or an error. The frame itself must say that it holds
// size bytes, and size must be at most limit, before anything is decompressed: a small record
// cannot become a huge one.
func decompress(b []byte, size, limit int) ([]byte, error) {
	if size > limit {
		return nil, fmt.Errorf("the stored state: %w", &core.SizeError{Size: int64(size), Limit: int64(limit)})
	}
	var frame zstd.Header
	if err := frame.Decode(b); err != nil {
		return nil, fmt.Errorf("%w: decompress: %w", core.ErrCorrupt, err)
	}
	if !frame.HasFCS || frame.FrameContentSize != uint64(size) {
		return nil, fmt.Errorf("%w: the compressed part holds %d bytes, its record says %d", core.ErrCorrupt, frame.FrameContentSize, size)
	}
	out, err := zstdDecoder().DecodeAll(b, make([]byte, 0, size))
	if err != nil {
		return nil, fmt.Errorf("%w: decompress: %w", core.ErrCorrupt, err)
	}
	if len(out) != size {
		return nil, fmt.Errorf("%w: decompressed to %d bytes instead of %d", core.ErrCorrupt, len(out), size)
	}
	return out, nil
}
