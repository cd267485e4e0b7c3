package demo

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// ledgerFile is the ledger as JSON lines. A line reaches the operating system before its
// effect is answered, so it survives a killed process; it is not synced to the disk.
type ledgerFile struct {
	f    *os.File
	size int64 // up to the end of the last whole line
}

// openLedgerFile opens or creates path and hands every effect in it to each, oldest first.
// A last line without its newline is what a crash left: that effect was never answered,
// and it is cut off. Any other line that is no effect is an error, and nothing is changed.
func openLedgerFile(path string, each func(Effect)) (*ledgerFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("demo ledger: %w", err)
	}
	lf := &ledgerFile{f: f}
	if err := lf.read(each); err != nil {
		return nil, errors.Join(fmt.Errorf("demo ledger %s: %w", path, err), f.Close())
	}
	return lf, nil
}

func (lf *ledgerFile) read(each func(Effect)) error {
	r := bufio.NewReader(lf.f)
	var last int64
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return lf.truncate(lf.size)
		}
		if err != nil {
			return err
		}
		var e Effect
		if err := json.Unmarshal(bytes.TrimSpace(line), &e); err != nil {
			return fmt.Errorf("line %d is no effect: %w", n, err)
		}
		if e.Seq != last+1 {
			return fmt.Errorf("line %d: effect %d follows effect %d", n, e.Seq, last)
		}
		last = e.Seq
		lf.size += int64(len(line))
		each(e)
	}
}

// append writes one line. After a failed or short write the file ends where it did.
func (lf *ledgerFile) append(e Effect) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if _, err := lf.f.WriteAt(line, lf.size); err != nil {
		return errors.Join(err, lf.f.Truncate(lf.size))
	}
	lf.size += int64(len(line))
	return nil
}

func (lf *ledgerFile) truncate(size int64) error {
	lf.size = size
	return lf.f.Truncate(size)
}

func (lf *ledgerFile) close() error { return lf.f.Close() }
