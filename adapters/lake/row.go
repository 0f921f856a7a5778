package lake

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// row is an event in a data file. Its day and its type are in the file's path.
type row struct {
	CampaignID    string    `parquet:"campaign_id,dict"`
	Seq           int64     `parquet:"seq"`
	Position      int64     `parquet:"position"`
	EventID       string    `parquet:"event_id"`
	Version       int32     `parquet:"version"`
	Intent        string    `parquet:"intent,dict"`
	AggregateType string    `parquet:"aggregate_type,optional,dict"`
	AggregateID   string    `parquet:"aggregate_id,optional,dict"`
	Actor         string    `parquet:"actor,optional,dict"`
	Tags          []string  `parquet:"tags,list"`
	Payload       string    `parquet:"payload"`
	Metadata      string    `parquet:"metadata"`
	OccurredAt    time.Time `parquet:"occurred_at,timestamp(microsecond:utc)"`
	RecordedAt    time.Time `parquet:"recorded_at,timestamp(microsecond:utc)"`
}

// columns is the schema of the table, as its log describes it.
func columns() string {
	var fields []string
	for _, c := range strings.Fields(`campaign_id:string seq:long position:long event_id:string version:integer
		intent:string aggregate_type:string aggregate_id:string actor:string tags: payload:string metadata:string
		occurred_at:timestamp recorded_at:timestamp day:date type:string`) {
		name, kind, _ := strings.Cut(c, ":")
		if kind = `"` + kind + `"`; name == "tags" {
			kind = `{"type":"array","elementType":"string","containsNull":true}`
		}
		fields = append(fields, fmt.Sprintf(`{"name":%q,"type":%s,"nullable":true,"metadata":{}}`, name, kind))
	}
	return `{"type":"struct","fields":[` + strings.Join(fields, ",") + `]}`
}

func rowOf(e *publisher.Event) row {
	object := func(json []byte) string {
		if len(json) == 0 {
			return "{}"
		}
		return string(json)
	}
	return row{
		CampaignID: e.CampaignID, Seq: e.Seq, Position: e.Position, EventID: e.ID.String(), Version: int32(e.Version),
		Intent: string(e.Intent), AggregateType: e.AggregateType, AggregateID: e.AggregateID, Actor: e.Actor,
		Tags: e.Tags, Payload: object(e.Payload), Metadata: object(e.Metadata),
		OccurredAt: e.OccurredAt, RecordedAt: e.RecordedAt,
	}
}

func newWriter(w io.Writer) *parquet.GenericWriter[row] {
	return parquet.NewGenericWriter[row](w, parquet.Compression(&zstd.Codec{}), parquet.DataPageVersion(1),
		parquet.PageBufferSize(pageBytes), parquet.SortingWriterConfig(byPosition()))
}

// pageBytes bounds what a search reads for one position.
const pageBytes = 1 << 16

// byPosition is the order of rows in a file, so that a merge need not sort and a search reads few pages.
func byPosition() parquet.SortingOption { return parquet.SortingColumns(parquet.Ascending("position")) }

// longestName is the most bytes that a folder's name has on common file systems.
const longestName = 255

// dirOf returns the folder of an event. Its type is escaped as Hive does, which keeps all letters.
func dirOf(e *publisher.Event) (string, error) {
	var escaped strings.Builder
	for _, r := range e.Type {
		if r < ' ' || r == 0x7f || strings.ContainsRune("\"#%'*/:=?\\{}[]^", r) {
			fmt.Fprintf(&escaped, "%%%02X", r)
		} else {
			escaped.WriteRune(r)
		}
	}
	name := "type=" + escaped.String()
	if e.Type == "__HIVE_DEFAULT_PARTITION__" || strings.EqualFold(e.Type, "null") { // readers take it for no type
		name = fmt.Sprintf("type=%%%02X%s", e.Type[0], e.Type[1:])
	}
	if len(name) > longestName {
		return "", fmt.Errorf("the type's folder would have a name of %d bytes, the limit is %d: "+
			"give the type a shorter name in the catalogue", len(name), longestName)
	}
	return "day=" + dayOf(e) + "/" + name, nil
}

func dayOf(e *publisher.Event) string { return e.RecordedAt.UTC().Format(time.DateOnly) }
