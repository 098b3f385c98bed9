package faulty

import (
	"strings"

	"github.com/weirflow/weir/persistence/driver"
)

func keyMutants() []Mutant {
	return []Mutant{
		{Name: "case_folding", Bug: "ids that differ only by case are one", Law: "driver/law01_ids_are_data", Break: renamed(func(k driver.Key) driver.Key {
			return driver.Key{Partition: driver.Partition(strings.ToLower(string(k.Partition))), Sort: k.Sort}
		})},
		{Name: "trailing_space", Bug: "spaces at the end of an id do not count", Law: "driver/law01_ids_are_data", Break: renamed(func(k driver.Key) driver.Key {
			return driver.Key{Partition: driver.Partition(strings.TrimRight(string(k.Partition), " ")), Sort: k.Sort}
		})},
		{Name: "long_ids_are_cut", Bug: "only 255 bytes of an id count", Law: "driver/law01_ids_are_data", Break: renamed(func(k driver.Key) driver.Key {
			return driver.Key{Partition: k.Partition[:min(255, len(k.Partition))], Sort: k.Sort}
		})},
		{Name: "joined_key", Bug: "id and sort are joined with a character that both may hold", Law: "driver/law01_ids_are_data", Break: renamed(func(k driver.Key) driver.Key {
			id, rest, ok := strings.Cut(string(k.Partition), "/")
			if !ok || k.Sort == "" {
				return k
			}
			return driver.Key{Partition: driver.Partition(id), Sort: rest + "/" + k.Sort}
		})},
		{Name: "sentinel", Bug: "the id __empty__ stands for no id", Law: "driver/law01_ids_are_data", Break: renamed(func(k driver.Key) driver.Key {
			return driver.Key{Partition: driver.Partition(strings.ReplaceAll(string(k.Partition), "__empty__", "None")), Sort: k.Sort}
		})},
		{Name: "path_is_cleaned", Bug: "an id is a path, and a/../b is b", Law: "driver/law01_ids_are_data", Break: renamed(func(k driver.Key) driver.Key {
			return driver.Key{Partition: driver.Partition(strings.ReplaceAll(string(k.Partition), "./", "")), Sort: k.Sort}
		})},
	}
}
